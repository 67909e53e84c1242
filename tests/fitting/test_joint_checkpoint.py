"""Checkpoints of several multinomial fits: killed amid them, resumed, refused where they differ."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.fitting.joint_checkpoint import JointCheckpoints

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 5))
Y = np.argmax(X[:, :3] + RNG.gumbel(size=(300, 3)), axis=1)
CS = [0.01, 0.1, 1.0, 10.0]


class Killed(BaseException):
    pass


@pytest.fixture
def killed(monkeypatch):
    """Make a function that kills the work given as the fit of this number begins."""

    def run(number, work):
        inner = JointCheckpoints.next

        def next_or_die(self, *how):
            if self.begun == number:
                raise Killed
            return inner(self, *how)

        with monkeypatch.context() as patch:
            patch.setattr(JointCheckpoints, "next", next_or_die)
            with pytest.raises(Killed):
                work()

    return run


def path(y=Y, C=CS, **more):
    return daskglm.fit(X, y, loss="multinomial", C=C, tol=1e-9, **more)


@pytest.mark.parametrize("options", [{}, {"l1_ratio": 0.7}, {"solver": "lbfgs"}], ids=str)
@pytest.mark.parametrize("labels", [3, 2])
def test_a_path_goes_on_with_the_fits_that_were_begun(labels, options, tmp_path, killed):
    y = Y if labels == 3 else Y == 1
    whole = path(y, **options)
    killed(2, lambda: path(y, **options, checkpoint=tmp_path / "c"))
    assert (tmp_path / "c" / "fit-1" / "state.npz").exists()
    assert not (tmp_path / "c" / "fit-2").exists()
    rest = path(y, **options, resume=tmp_path / "c", checkpoint=tmp_path / "c")
    for k, (model, other) in enumerate(zip(rest, whole, strict=True)):
        np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-4)
        assert model.report_.converged
        assert (model.report_.resumed > 0) == (k < 2)
        if k < 2:
            assert model.report_.n_iter <= 2
    again = path(y, **options, resume=tmp_path / "c")
    assert all(model.report_.resumed for model in again)


def test_a_fit_that_was_cut_short_goes_on(tmp_path):
    with pytest.warns(ConvergenceWarning):
        path(max_iter=2, solver="lbfgs", checkpoint=tmp_path / "c")
    rest = path(solver="lbfgs", resume=tmp_path / "c")
    assert [model.report_.resumed for model in rest] == [2] * len(CS)
    assert all(model.report_.converged for model in rest)


@pytest.mark.parametrize("ratios", [None, [0.5, 1.0]])
def test_folds_go_on(ratios, tmp_path, killed):
    given = {"cv": 3, "Cs": [0.1, 1.0], "tol": 1e-9, "random_state": 0, "l1_ratios": ratios}

    def fit(**more):
        return daskglm.LogisticRegressionCV(**given).fit(X, Y, **more)

    whole = fit()
    killed(4, lambda: fit(checkpoint=tmp_path / "c"))
    rest = fit(resume=tmp_path / "c")
    np.testing.assert_allclose(rest.coef_, whole.coef_, atol=1e-4)
    np.testing.assert_array_equal(rest.C_, whole.C_)
    for label, scores in whole.scores_.items():
        np.testing.assert_allclose(rest.scores_[label], scores, atol=1e-6)
    assert rest.report_.resumed > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"C": [0.02, 0.1]}, "is of a fit with C=0.01, this one has C=0.02"),
        ({"C": [0.01, 0.2]}, "is of a fit with C=0.1, this one has C=0.2"),
        ({"l1_ratio": 0.5}, "penalty"),
        ({"fit_intercept": False}, "fit_intercept"),
        ({"y": np.where(Y == 2, 5, Y)}, "other data"),
        ({"y": (Y == 1).astype(int)}, "is of a fit with loss='multinomial'"),
    ],
)
def test_other_fits_are_refused(changes, message, tmp_path):
    path(checkpoint=tmp_path / "c")
    with pytest.raises(ValueError, match=message):
        path(**changes, resume=tmp_path / "c")


def test_what_is_no_checkpoint_is_refused_before_any_work(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no checkpoint"):
        path(resume=tmp_path / "none")
    path(checkpoint=tmp_path / "c")
    with pytest.raises(ValueError, match="resume and warm_start"):
        path(resume=tmp_path / "c", warm_start=path())
