"""Targets of exponential families, drawn from a linear model, that many tests share."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import scipy.sparse as sp

# family, link, and an intercept at which the link's margins and means are in their domain
CASES = [
    ("gaussian", "identity", 0.0),
    ("gaussian", "log", 0.0),
    ("binomial", "logit", 0.0),
    ("binomial", "probit", 0.0),
    ("binomial", "cloglog", 0.0),
    ("poisson", "log", 0.0),
    ("poisson", "identity", 3.0),
    ("poisson", "sqrt", 3.0),
    ("gamma", "log", 0.0),
    ("gamma", "inverse", 3.0),
    ("gamma", "identity", 3.0),
    ("inverse_gaussian", "log", 0.0),
    ("inverse_gaussian", "1/mu^2", 3.0),
    ("tweedie(1.5)", "log", 0.0),
    ("negative_binomial(0.7)", "log", 0.0),
    ("gaussian", "inverse", 3.0),
    ("binomial", "log", -3.0),
    ("tweedie(1.5)", "identity", 3.0),
    ("tweedie(1.5)", "power", 3.0),
]
NAMES = list("abc")
COEF = np.array([0.3, -0.4, 0.2])


def means(link, z):
    """Means of margins, by formulas that are not the package's."""
    from scipy.stats import norm

    return {
        "identity": lambda: z,
        "log": lambda: np.exp(z),
        "logit": lambda: 1 / (1 + np.exp(-z)),
        "probit": lambda: norm.cdf(z),
        "cloglog": lambda: 1 - np.exp(-np.exp(z)),
        "sqrt": lambda: z**2,
        "inverse": lambda: 1 / z,
        "1/mu^2": lambda: z**-0.5,
        "power": lambda: z**-2.0,
    }[link]()


def draw(family, mu, rng):
    """Targets of a family with these means."""
    n = len(mu)
    return {
        "gaussian": lambda: mu + 0.3 * rng.standard_normal(n),
        "binomial": lambda: (rng.random(n) < mu).astype(float),
        "poisson": lambda: rng.poisson(mu).astype(float),
        "gamma": lambda: rng.gamma(5, mu / 5),
        "inverse_gaussian": lambda: rng.wald(mu, 4.0),
        "tweedie": lambda: np.array([rng.gamma(2, m / 2, rng.poisson(1.5)).sum() for m in mu]),
        "negative_binomial": lambda: rng.poisson(rng.gamma(1 / 0.7, mu * 0.7)).astype(float),
    }[family.partition("(")[0]]()


def sample(family="poisson", link="log", centre=0.0, *, n=300, seed=0):
    """Rows, targets, weights and offsets."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, (n, 3))
    offset = rng.uniform(-0.3, 0.3, n)
    y = draw(family, means(link, X @ COEF + centre + offset), rng)
    return X, y, rng.uniform(0.5, 2.0, n), offset


def containers(X, y, weight, offset, exposure):
    """The same rows in all containers: X, y, weights, offsets and exposures."""
    frame = pd.DataFrame(X, columns=NAMES).assign(y=y, w=weight, o=offset, e=exposure)
    lazy = dd.from_pandas(frame, npartitions=3)
    beside = y, weight, offset, exposure
    rows = da.from_array(X, chunks=(110, 2))
    cuts = [slice(0, 100), slice(100, len(y))]
    parts = [[dask.delayed(values[cut]) for cut in cuts] for values in (X, *beside)]
    return {
        "numpy": (X, *beside),
        "csr": (sp.csr_matrix(X), *beside),
        "pandas": (frame[NAMES], *(frame[name] for name in "ywoe")),
        "pandas, names": (frame, *"ywoe"),
        "dask array": (rows, *(da.from_array(values, chunks=90) for values in beside)),
        "dask array, others in memory": (rows, *beside),
        "dask array of csr": (
            da.from_array(X, chunks=(110, 3)).map_blocks(sp.csr_matrix, dtype=float),
            *beside,
        ),
        "dask frame": (lazy[NAMES], *(lazy[name] for name in "ywoe")),
        "dask frame, names": (lazy, *"ywoe"),
        "delayed": tuple(parts),
    }
