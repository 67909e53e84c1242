"""LinearSVC beside scikit-learn's, for each hinge."""

import numpy as np
import pytest
from sklearn.svm import LinearSVC as TheirSVC

import daskglm
from tests.conftest import make_problem

X, y = make_problem(300, 5, seed=2)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_coefficients_are_scikit_learns(loss):
    ours = daskglm.LinearSVC(loss=loss, fit_intercept=False, tol=1e-9, random_state=0).fit(X, y)
    theirs = TheirSVC(
        loss=loss, dual=True, fit_intercept=False, tol=1e-9, max_iter=100_000, random_state=0
    ).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-4)
    assert ours.score(X, y) == theirs.score(X, y)


def test_dual_is_solved_by_sdca():
    report = daskglm.LinearSVC(dual=True, random_state=0).fit(X, y).report_
    assert report.solver.startswith("sdca")


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"loss": "logistic"}, "loss='logistic' is not one of 'squared_hinge', 'hinge'"),
        ({"loss": "hinge", "dual": False}, "dual"),
        ({"dual": "yes"}, "dual='yes'"),
    ],
)
def test_parameters_that_cannot_be(params, said):
    with pytest.raises(ValueError, match=said):
        daskglm.LinearSVC(**params).fit(X, y)


def test_several_classes_are_each_against_the_rest():
    classes = np.digitize(X[:, 0], [-0.5, 0.5])
    model = daskglm.LinearSVC(tol=1e-8).fit(X, classes)
    for k in range(3):
        alone = daskglm.LinearSVC(tol=1e-8).fit(X, classes == k)
        np.testing.assert_allclose(model.coef_[k], alone.coef_[0], atol=1e-5)


def test_the_hinge_says_what_to_do_with_an_offset_and_that_is_right():
    offset = 0.5 * X[:, 0] + np.sin(np.arange(len(y)))
    with pytest.raises(ValueError, match="loss='hinge' takes no offset; make it a column") as said:
        daskglm.LinearSVC(loss="hinge").fit(X, y, offset=offset)
    assert "sdca" not in str(said.value)
    for params, given in (
        ({"dual": True}, "dual=True takes"),
        ({"solver": "liblinear", "dual": True}, "dual=True takes"),
        ({"solver": "sdca"}, "solver='sdca' takes"),
    ):
        with pytest.raises(ValueError, match=f"^{given} no offset with loss='squared_hinge'"):
            daskglm.LinearSVC(**params).fit(X, y, offset=offset)
    with pytest.raises(ValueError, match="^solver='sag' of scikit-learn: sdca takes no offset"):
        daskglm.LogisticRegression(solver="sag").fit(X, y, offset=offset)

    bounds = np.append(np.full(5, np.inf), 1.0)
    column = {
        "penalty_factor": np.append(np.ones(5), 0.0),
        "lower_bounds": np.where(np.isinf(bounds), -np.inf, bounds),
        "upper_bounds": bounds,
    }
    model = daskglm.LinearSVC(loss="hinge", tol=1e-9, **column).fit(np.c_[X, offset], y)
    assert model.coef_[0, -1] == 1.0
    signs = np.where(y == model.classes_[1], 1.0, -1.0)

    def objective(w, b):
        return 0.5 * w @ w + np.maximum(0.0, 1.0 - signs * (X @ w + b + offset)).sum()

    w, b = model.coef_[0, :-1], model.intercept_[0]
    rng = np.random.default_rng(0)
    assert model.report_.objective == pytest.approx(objective(w, b))
    for _ in range(200):
        near = w + 1e-3 * rng.standard_normal(5), b + 1e-3 * rng.standard_normal()
        assert objective(*near) > objective(w, b) * (1.0 - 1e-9)
