"""Fits without a penalty, and the same by statsmodels, for tests of inference."""

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import daskglm

# No fit reaches it: all end where rounding ends them.
TOL = 1e-20


def fitted(loss, X, y, weight=None, offset=None):
    """A model of a loss by name, as exact as can be."""
    model = daskglm.LinearRegressor(loss=loss, C=np.inf, tol=TOL)
    if loss == "logistic":
        model = daskglm.LogisticRegression(C=np.inf, tol=TOL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y, weight, offset)


class Case(NamedTuple):
    """A loss of ours; family, link and parameters of the family by their names in statsmodels."""

    loss: str
    family: str
    link: str
    options: dict
    offset: bool = False

    def family_of(self, sm):
        link = getattr(sm.families.links, self.link)()
        return getattr(sm.families, self.family)(link=link, **self.options)

    def targets(self, mu, rng):
        """Targets of these means."""
        n = len(mu)
        return {
            "Poisson": lambda: rng.poisson(mu).astype(float),
            "Binomial": lambda: (rng.random(n) < mu).astype(float),
            "Gamma": lambda: mu * rng.gamma(3.0, 1 / 3.0, n),
            "InverseGaussian": lambda: rng.wald(mu, 5.0 * mu),
            "Gaussian": lambda: mu + rng.standard_normal(n),
            "Tweedie": lambda: rng.poisson(mu) * rng.gamma(2.0, 0.5, n),
            "NegativeBinomial": lambda: rng.poisson(mu * rng.gamma(2.0, 0.5, n)).astype(float),
        }[self.family]()

    def means(self, z):
        """Means of these margins, of a plain inverse link."""
        from scipy.special import expit, ndtr

        return {
            "Log": np.exp,
            "Logit": expit,
            "Probit": ndtr,
            "CLogLog": lambda z: -np.expm1(-np.exp(z)),
            "Identity": lambda z: z,
            "InversePower": lambda z: 1 / z,
            "InverseSquared": lambda z: z**-0.5,
            "Sqrt": np.square,
        }[self.link](z)


CASES = {
    case.loss: case
    for case in (
        Case("logistic", "Binomial", "Logit", {}),
        Case("binomial", "Binomial", "Logit", {}),
        Case("binomial_probit", "Binomial", "Probit", {}),
        Case("binomial_cloglog", "Binomial", "CLogLog", {}),
        Case("poisson", "Poisson", "Log", {}, offset=True),
        Case("poisson_identity", "Poisson", "Identity", {}),
        Case("poisson_sqrt", "Poisson", "Sqrt", {}),
        Case("gamma", "Gamma", "Log", {}, offset=True),
        Case("gamma_inverse", "Gamma", "InversePower", {}),
        Case("gamma_identity", "Gamma", "Identity", {}),
        Case("inverse_gaussian", "InverseGaussian", "Log", {}),
        Case("inverse_gaussian_squared", "InverseGaussian", "InverseSquared", {}),
        Case("tweedie(1.5)", "Tweedie", "Log", {"var_power": 1.5}, offset=True),
        Case("negative_binomial(0.5)", "NegativeBinomial", "Log", {"alpha": 0.5}, offset=True),
        Case("squared", "Gaussian", "Identity", {}, offset=True),
        Case("gaussian_log", "Gaussian", "Log", {}),
    )
}


class Data(NamedTuple):
    """Rows, targets, offsets (None: none), weights of rows, and clusters."""

    X: np.ndarray
    y: np.ndarray
    offset: np.ndarray | None
    weight: np.ndarray
    clusters: np.ndarray

    @property
    def with_constant(self):
        return np.column_stack([self.X, np.ones(len(self.X))])


def data_of(case, n=400, d=3, seed=0):
    """Rows of which the margins are between 0.3 and 3 or so, with targets of the case."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    z = X @ np.linspace(0.4, -0.2, d) + 1.2
    offset = rng.uniform(-0.5, 0.5, n) if case.offset else None
    y = case.targets(case.means(z if offset is None else z + offset), rng)
    return Data(X, y, offset, rng.integers(1, 4, n).astype(float), rng.integers(0, 40, n))
