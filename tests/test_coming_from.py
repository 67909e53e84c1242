"""The tables of docs/coming-from.md name parameters that are there, and convert as they say."""

import importlib
import importlib.util
import inspect
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from sklearn import linear_model, svm

import daskglm

DOCS = Path(__file__).resolve().parents[1] / "docs"
RIVALS = tomllib.loads((DOCS / "coming_from.toml").read_text())
RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 5)) + 0.5
y = (X @ [1.0, -1.0, 0.5, 0.0, 2.0] + RNG.standard_normal(300) > 1.0).astype(int)
numbers = X @ np.arange(5.0) + RNG.standard_normal(300)


def signature(where):
    """Parameters of what `module:name` or `module:name.method` names; skips without the module."""
    module, _, path = where.partition(":")
    package = module.split(".")[0]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    found = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return set(inspect.signature(found).parameters)


def test_each_table_is_on_the_page_once():
    page = (DOCS / "coming-from.md").read_text()
    assert sorted(re.findall(r"\{\{ table (.+?) \}\}", page)) == sorted(RIVALS)


@pytest.mark.parametrize("rival", RIVALS)
def test_our_parameters_are_there(rival):
    ours = set(inspect.signature(daskglm.fit).parameters)
    for name in RIVALS[rival]["ours"]:
        ours |= set(inspect.signature(getattr(daskglm, name)).parameters)
    named = {row[1] for row in RIVALS[rival]["rows"] if row[1]}
    assert named <= ours, named - ours


@pytest.mark.parametrize("rival", [name for name, each in RIVALS.items() if each["import"]])
def test_their_parameters_are_there(rival):
    theirs = set().union(*map(signature, RIVALS[rival]["import"]))
    named = [row[0] for row in RIVALS[rival]["rows"]]
    assert len(named) == len(set(named))
    assert set(named) <= theirs, set(named) - theirs


@pytest.mark.parametrize("rival", ["scikit-learn", "scikit-learn-ridge", "scikit-learn-svm"])
def test_no_parameter_of_scikit_learn_is_left_out(rival):
    theirs = set().union(*map(signature, RIVALS[rival]["import"]))
    assert theirs == {row[0] for row in RIVALS[rival]["rows"]}


def test_the_page_is_filled():
    sys.path.insert(0, str(DOCS))
    try:
        coming_from = importlib.import_module("coming_from")
    finally:
        sys.path.remove(str(DOCS))
    source = [(DOCS / "coming-from.md").read_text()]
    coming_from.fill(None, "coming-from", source)
    assert "{{" not in source[0]
    assert "| `C` | `C` | the same |" in source[0]
    assert source[0].count("|---|---|---|") == len(RIVALS)


# ---- conversions
def close(model, coef, intercept=None, rtol=1e-3):
    np.testing.assert_allclose(np.ravel(model.coef_), np.ravel(coef), rtol=rtol, atol=1e-4)
    if intercept is not None:
        np.testing.assert_allclose(model.intercept_, intercept, rtol=rtol, atol=1e-4)


def test_scikit_learn():
    theirs = linear_model.LogisticRegression(C=0.3, tol=1e-10).fit(X, y)
    close(daskglm.LogisticRegression(C=0.3, tol=1e-12).fit(X, y), theirs.coef_, theirs.intercept_)
    theirs = linear_model.Ridge(alpha=2.0).fit(X, numbers)
    close(daskglm.Ridge(alpha=2.0, tol=1e-12).fit(X, numbers), theirs.coef_, theirs.intercept_)
    theirs = svm.LinearSVC(C=0.3, fit_intercept=False, dual=False, tol=1e-10).fit(X, y)
    close(daskglm.LinearSVC(C=0.3, fit_intercept=False, tol=1e-12).fit(X, y), theirs.coef_)


def test_statsmodels():
    api = pytest.importorskip("statsmodels.api", reason="statsmodels is not installed")
    theirs = api.Logit(y, api.add_constant(X)).fit(disp=0)
    ours = daskglm.fit(X, y, C=float("inf"), tol=1e-10)
    close(ours, theirs.params[1:], theirs.params[0])


@pytest.mark.parametrize("weights", [None, 0.5 + RNG.random(300)])
def test_glum(weights):
    glum = pytest.importorskip("glum", reason="glum is not installed")
    theirs = glum.GeneralizedLinearRegressor(
        family="binomial", alpha=0.02, l1_ratio=0, gradient_tol=1e-10
    ).fit(X, y.astype(float), sample_weight=weights)
    total = 300 if weights is None else weights.sum()
    ours = daskglm.fit(X, y, C=1 / (0.02 * total), sample_weight=weights, tol=1e-12)
    close(ours, theirs.coef_, theirs.intercept_)


@pytest.mark.parametrize(("kind", "loss"), [(0, "logistic"), (2, "squared_hinge"), (3, "hinge")])
def test_liblinear(kind, loss):
    library = pytest.importorskip(
        "liblinear.liblinearutil", reason="liblinear-official is not installed"
    )
    signs = np.where(y == 1, 1, -1)
    theirs = library.train(signs.tolist(), X, f"-s {kind} -c 0.3 -e 1e-8 -B -1 -q")
    coef = np.array([theirs.w[j] for j in range(5)]) * theirs.label[0]
    # their hinge ends at 1,000 iterations, a percent from the optimum
    ours = daskglm.fit(X, y, C=0.3, loss=loss, fit_intercept=False, tol=1e-10)
    close(ours, coef, rtol=2e-2 if kind == 3 else 1e-3)


def test_snap_ml():
    snapml = pytest.importorskip("snapml", reason="snapml is not installed")
    theirs = snapml.LogisticRegression(
        regularizer=4.0, fit_intercept=False, tol=1e-9, max_iter=10_000
    ).fit(X, y)
    ours = daskglm.LogisticRegression(C=0.25, fit_intercept=False, tol=1e-12).fit(X, y)
    close(ours, theirs.coef_)


def test_dask_ml():
    dask_ml = pytest.importorskip("dask_ml.linear_model", reason="dask-ml is not installed")
    theirs = dask_ml.LogisticRegression(
        C=0.5, fit_intercept=False, solver="lbfgs", tol=1e-10, max_iter=500
    ).fit(X, y)
    # their solver "newton" has no penalty, and "lbfgs" ends a percent from the optimum
    ours = daskglm.LogisticRegression(C=0.5, fit_intercept=False, tol=1e-12).fit(X, y)
    close(ours, theirs.coef_, rtol=2e-2)
