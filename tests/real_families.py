"""Real data sets for fits of families: counts with exposure, claim amounts, classes.

The files are in ../shared/data (or DASKGLM_DATA), which is not part of the repository; a test that
asks for them skips where that folder is not there. All designs but the sparse ones have full rank
together with a constant column, so that unpenalised fits and standard errors exist.
"""

import dataclasses
import functools
import importlib.util
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from .conftest import SHARED
from .published import without_aliased

CLAIMS = {  # columns of counts, exposure in years, and amounts
    "beMTPL97": ("nclaims", "expo", "amount"),
    "norauto": ("NbClaim", "Expo", "ClaimAmount"),
    "swmotorcycle": ("ClaimNb", "Exposure", "ClaimAmount"),
    "ausprivauto0405": ("ClaimNb", "Exposure", "ClaimAmount"),
}
CLUSTERS = {"rwm5yr": "id", "medpar": "provnum", "RandHIE": "zper"}
EVENTS = (
    "rwm5yr",
    "medpar",
    "NMES1988",
    "DoctorVisits",
    "RecreationDemand",
    "DoctorContacts",
    "RandHIE",
    "bike_hour",
)
CLASSES = ("letter", "pendigits", "covtype15k", "mnist", "news20_libsvm")


@dataclasses.dataclass(frozen=True, eq=False)
class Real:
    """A problem from real data. `test` is (X, y) that were kept apart, where a set has them."""

    name: str
    family: str
    link: str
    X: np.ndarray  # dense, or scipy.sparse CSR where it says so
    y: np.ndarray
    sample_weight: np.ndarray | None = None
    exposure: np.ndarray | None = None
    groups: np.ndarray | None = None  # rows of a person or a hospital
    power: float | None = None
    test: tuple | None = None


def _folder():
    folder = Path(os.environ.get("DASKGLM_DATA", SHARED))
    if not (folder / "load_real.py").exists():
        pytest.skip("the folder of real data sets (../shared/data, or DASKGLM_DATA) is not here")
    return folder


@functools.cache
def _loader():
    spec = importlib.util.spec_from_file_location("load_real", _folder() / "load_real.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _full_rank(X):
    """Drop columns that those before them and a constant give."""
    return without_aliased(pd.DataFrame(np.asarray(X, float))).to_numpy()


# ---- insurance


@functools.cache
def _claims(name):
    """Design, claims, years and amounts of policies with an exposure."""
    claims, years, amount = CLAIMS[name]
    data = pd.read_csv(_folder() / "insurance_counts" / f"{name}.csv.xz")
    data = data[data[years] > 0]
    if name == "beMTPL97":  # without postcodes: `postcode_counts` has them
        X = _loader().onehot(
            data,
            ["coverage", "sex", "fuel", "use", "fleet", "bm"],
            ["ageph", "power", "agec", "long", "lat"],
        )
    else:
        X = _loader().load(name)[0]
    return _full_rank(X.toarray()), *(data[each].to_numpy(float) for each in CLAIMS[name])


def claim_counts(name, family="poisson"):
    """Claims of a policy, with years as exposure; Poisson, or negative binomial."""
    X, claims, years, _ = _claims(name)
    return Real(name, family, "log", X, claims, exposure=years)


def claim_severity(name):
    """Amount by claim for policies that had one, weighted by claims: Gamma with log link."""
    X, claims, _, amount = _claims(name)
    rows = (claims > 0) & (amount > 0)
    y, weight = amount[rows] / claims[rows], claims[rows]
    return Real(name, "gamma", "log", _full_rank(X[rows]), y, sample_weight=weight)


def pure_premium(name, power=1.5):
    """Amount by year, weighted by years: Tweedie with log link, most targets 0."""
    X, _, years, amount = _claims(name)
    return Real(name, "tweedie", "log", X, amount / years, sample_weight=years, power=power)


@functools.cache
def postcode_counts():
    """Belgian claims with an indicator of each postcode: sparse, 622 columns, not of full rank."""
    _folder()
    X, y, extra = _loader().load("beMTPL97")
    return Real("beMTPL97", "poisson", "log", X, y, exposure=extra["exposure"])


# ---- counts


@functools.cache
def event_counts(name, family="poisson"):
    """Counts from econometrics; `groups` are persons or hospitals in rwm5yr, medpar and RandHIE."""
    folder = _folder()
    X, y, _ = _loader().load(name)
    groups = None
    if name in CLUSTERS:
        groups = pd.read_csv(folder / "econ_counts" / f"{name}.csv.xz")[CLUSTERS[name]].to_numpy()
    return Real(name, family, "log", _full_rank(X), y, groups=groups)


# ---- classes


@functools.cache
def classes(name, rows=None):
    """Classes 0, 1, ...: dense columns of about unit size, sparse rows of unit length for news20.

    `rows` keeps the first ones; mnist has 60,000 of 784 columns. Classes are nearly separable in
    some sets, so fits want a penalty.
    """
    folder = _folder()
    if name == "covtype15k":
        X, y, test = _covtype(folder)
    elif name == "mnist":
        X, y = _mnist("train", rows)
        test = _mnist("t10k", rows)
    else:
        X, y, extra = _loader().load(name)
        X, test = _dense(X, name), extra.get("test")
        if test is not None:
            test = _dense(test[0], name), _numbered(test[1])
    return Real(name, "multinomial", "logit", X[:rows], _numbered(y)[:rows], test=test)


def _numbered(y):
    return np.unique(y, return_inverse=True)[1]


def _dense(X, name):
    if name == "news20_libsvm":
        return X
    return X.toarray() / (100 if name == "pendigits" else 1)


def _covtype(folder):
    data = pd.read_csv(folder / "covtype15k" / "covtype15k.csv.xz").to_numpy(float)
    X = data[:, :-1]
    X[:, :10] = (X[:, :10] - X[:, :10].mean(0)) / X[:, :10].std(0)
    return _full_rank(X), data[:, -1], None


def _mnist(part, rows):
    images, labels = (
        _loader().idx(_folder() / "mnist" / f"{part}-{kind}.xz")[:rows]
        for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")
    )
    return images.reshape(len(images), -1) / 255.0, labels
