"""A loss of K margins is added from outside of the package, as the one module `label_smoothing.py`."""

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from scipy.special import logsumexp, softmax

import daskglm
from daskglm.losses.table import JOINT_LOSSES

K, D = 4, 5
RNG = np.random.default_rng(0)
X = RNG.standard_normal((500, D))
Y = (X @ RNG.standard_normal((D, K)) + RNG.gumbel(size=(500, K))).argmax(axis=1)
WEIGHT = RNG.uniform(0.5, 2.0, 500)


@pytest.fixture(autouse=True)
def label_smoothing():
    from tests.extending import label_smoothing as module

    JOINT_LOSSES["label_smoothing"] = module.LABEL_SMOOTHING
    yield
    del JOINT_LOSSES["label_smoothing"]


def best(rows, C, share, weight=None, y=Y):
    """The optimum by SciPy: its value and its coefficients (K, d + 1)."""
    X1, s = np.c_[rows, np.ones(len(rows))], np.ones(len(rows)) if weight is None else weight
    K = y.max() + 1
    Q = (1.0 - share) * np.eye(K)[y] + share / K

    def f(w):
        W = w.reshape(K, -1)
        Z = X1 @ W.T
        G = C * ((softmax(Z, axis=1) - Q) * s[:, None]).T @ X1
        G[:, :-1] += W[:, :-1]
        value = C * s @ (logsumexp(Z, axis=1) - (Q * Z).sum(axis=1))
        return value + 0.5 * (W[:, :-1] ** 2).sum(), G.ravel()

    start = np.zeros(K * X1.shape[1])
    found = scipy.optimize.minimize(f, start, jac=True, method="L-BFGS-B", tol=1e-15)
    W = found.x.reshape(K, -1)
    return found.fun, W - W.mean(axis=0)


@pytest.mark.parametrize("solver", ["auto", "newton", "tron", "lbfgs", "gd"])
def test_it_is_fitted_by_all_solvers_of_the_primal_and_proved(solver):
    value, W = best(X, 0.3, 0.1, WEIGHT)
    given = {"loss": "label_smoothing", "C": 0.3, "solver": solver, "tol": 1e-8}
    model = daskglm.fit(X, Y, sample_weight=WEIGHT, **given)
    assert isinstance(model, daskglm.LinearClassifier)
    assert model.report_.converged
    assert 0.0 <= model.report_.relative_gap <= 1e-8
    assert model.report_.objective == pytest.approx(value, rel=1e-8)
    np.testing.assert_allclose(model.coef_, W[:, :-1], atol=1e-3)
    np.testing.assert_array_equal(model.predict(X), (X @ W[:, :-1].T + W[:, -1]).argmax(axis=1))


@pytest.mark.parametrize("share", [0.02, 0.5])
@pytest.mark.parametrize("storage", ["csr", "float32", "wide"])
def test_its_gap_is_a_bound_for_any_share_and_storage(storage, share):
    rows = X.astype(np.float32) if storage == "float32" else X
    if storage == "wide":
        rows = np.concatenate([X, np.zeros((500, 600))], axis=1)
    given = sp.csr_matrix(rows) if storage in ("csr", "wide") else rows
    value, _ = best(rows.astype(float), 1.0, share)
    model = daskglm.fit(given, Y, loss=f"label_smoothing({share})", C=1.0, tol=1e-6)
    least = model.report_.objective * (1.0 - model.report_.relative_gap)
    assert least <= value * (1.0 + 1e-9)
    assert model.report_.objective == pytest.approx(value, rel=1e-6)


def test_two_classes_and_an_l1_penalty():
    of_two = (Y > 1).astype(int)
    value, W = best(X, 1.0, 0.1, y=of_two)
    model = daskglm.fit(X, of_two, loss="label_smoothing", C=1.0, tol=1e-9)
    assert model.report_.objective == pytest.approx(value, rel=1e-8)
    assert (model.predict(X) == (X @ W[:, :-1].T + W[:, -1]).argmax(axis=1)).mean() > 0.99
    sparse = daskglm.fit(X, Y, loss="label_smoothing", C=0.02, l1_ratio=1.0, tol=1e-7)
    assert sparse.report_.converged
    assert (sparse.coef_ == 0.0).any()


def test_it_is_refused_where_only_the_softmax_is_known():
    model = daskglm.fit(X, Y, loss="label_smoothing", C=np.inf)
    with pytest.raises(ValueError, match=r"label_smoothing.*multinomial"):
        model.inference(X, Y)


def test_a_path_has_the_fits_of_each_strength():
    given = {"loss": "label_smoothing(0.2)", "tol": 1e-9}
    for C, model in zip((0.1, 1.0), daskglm.fit(X, Y, C=[0.1, 1.0], **given), strict=True):
        alone = daskglm.fit(X, Y, C=C, **given)
        assert model.report_.objective == pytest.approx(alone.report_.objective, rel=1e-8)
        assert model.report_.relative_gap <= 1e-9
