"""Checkpoints of paths: killed amid their fits, resumed with those that are finished, refused where they do not belong."""

import json

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from fsspec.implementations.memory import MemoryFileSystem
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.data import npz
from daskglm.fitting import checkpoint_files as files
from daskglm.fitting.path_checkpoint import PathFits, parsed
from tests.conftest import make_problem
from tests.covering import each_choice

X, y = make_problem(400, 6)
COUNTS = np.random.default_rng(0).poisson(np.exp(0.3 * X[:, 0] - 0.2 * X[:, 1])).astype(float)
TOL = 1e-12


class Killed(BaseException):
    pass


@pytest.fixture
def killed(monkeypatch):
    """Make a function that kills the work given when so many fits are finished."""

    def run(number, work):
        kept, made = PathFits.add, []

        def add(self, key, fitted):
            kept(self, key, fitted)
            made.append(key)
            if len(made) == number:
                raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(PathFits, "add", add)
            with pytest.raises(Killed):
                work()
        return made

    return run


def path(X=X, y=COUNTS, **more):
    options = {"family": "poisson", "n_alphas": 12, "eps": 1e-3, "tol": TOL, **more}
    return daskglm.regularization_path(X, y, **options)


def saved_in(folder):
    return files.read(folder, parsed)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"family": "gaussian"},
        {"family": None, "y": y},
        {"X": sp.csr_matrix(X), "l1_ratio": 0.5},
        {"alphas": [0.1, 0.01, 0.03, 0.003], "positive": True, "standardize": True},
        {"groups": [[0, 1], [2, 3], [4, 5]]},
        {"fit_intercept": False, "penalty_factor": [0.0, 1, 1, 1, 2, 1]},
    ],
    ids=["poisson", "gaussian", "classes", "sparse", "positive", "groups", "factors"],
)
def test_a_path_goes_on_with_what_is_finished(options, tmp_path, killed):
    whole = path(**options)
    at = len(whole.alphas) // 2
    killed(at, lambda: path(**options, checkpoint=tmp_path / "c", checkpoint_every=1))
    saved = saved_in(tmp_path / "c")
    np.testing.assert_array_equal(saved.counts, [[at]])
    rest = path(**options, resume=tmp_path / "c", checkpoint=tmp_path / "c")
    np.testing.assert_allclose(rest.alphas, whole.alphas, rtol=1e-12)
    np.testing.assert_allclose(rest.coefs, whole.coefs, atol=1e-5)
    np.testing.assert_array_equal(rest.coefs[:at], [fitted.w[:6] for fitted in saved.fits])
    assert (rest.gaps <= TOL).all()
    assert rest.report_.resumed == sum(fitted.n_iter for fitted in saved.fits)
    if rest.report_.n_iter:
        assert rest.report_.passes < whole.report_.passes
    assert saved_in(tmp_path / "c").counts == len(whole.alphas)


def test_a_path_that_is_finished_takes_one_pass_to_read_again(tmp_path):
    whole = path(checkpoint=tmp_path / "c")
    again = path(resume=tmp_path / "c")
    np.testing.assert_array_equal(again.coefs, whole.coefs)
    np.testing.assert_array_equal(again.gaps, whole.gaps)
    assert again.report_.passes == 1.0


def test_fits_that_ended_above_tol_are_solved_again(tmp_path):
    with pytest.warns(ConvergenceWarning, match="max_iter iterations were made"):
        path(max_iter=1, checkpoint=tmp_path / "c")
    again = path(resume=tmp_path / "c")
    assert (again.gaps <= TOL).all()
    np.testing.assert_allclose(again.coefs, path().coefs, atol=1e-5)


def test_fits_and_seconds_between_states(tmp_path, killed):
    killed(5, lambda: path(checkpoint=tmp_path / "c", checkpoint_every=2))
    assert saved_in(tmp_path / "c").counts == 4
    killed(5, lambda: path(checkpoint=tmp_path / "d", checkpoint_every="1 hour"))
    assert saved_in(tmp_path / "d").counts == 1, "the first fit, then one an hour"


@pytest.mark.parametrize("where", ["in process", "on a cluster"])
@pytest.mark.parametrize("lazy", [False, True])
def test_a_path_killed_here_goes_on_there(where, lazy, tmp_path, killed, request):
    data = (da.from_array(X, chunks=(100, 6)), da.from_array(COUNTS, chunks=100))
    killed(6, lambda: path(*(data if lazy else ()), checkpoint=tmp_path / "c", checkpoint_every=1))
    if where == "on a cluster":
        request.getfixturevalue("client")
    rest = path(*data, resume=tmp_path / "c")
    assert rest.report_.workers == (2 if where == "on a cluster" else 1)
    np.testing.assert_allclose(rest.coefs, path().coefs, atol=1e-5)


def cv_of(kind, **more):
    if kind == "gaussian":
        return daskglm.ElasticNetCV(l1_ratio=[0.5, 1.0], alphas=8, cv=3, tol=TOL, **more)
    ratios = [0.3, 1.0] if kind == "poisson" else 0.0
    return daskglm.GeneralizedLinearRegressorCV(
        "poisson", l1_ratio=ratios, alphas=8, cv=3, tol=TOL, **more
    )


@each_choice
@pytest.mark.parametrize("kind", ["gaussian", "poisson"])
@pytest.mark.parametrize("number", [1, 20, 48])
def test_folds_go_on_with_what_is_finished(kind, number, tmp_path, killed):
    whole = cv_of(kind).fit(X, COUNTS)

    def fit(**more):
        return cv_of(kind).fit(X, COUNTS, **more)

    made = killed(number, lambda: fit(checkpoint=tmp_path / "c", checkpoint_every=1))
    if kind == "poisson" and number > 1:  # folds and mixes side by side
        assert len(set(made)) == 6
    rest = fit(resume=tmp_path / "c")
    assert (rest.alpha_, rest.l1_ratio_) == pytest.approx((whole.alpha_, whole.l1_ratio_))
    np.testing.assert_allclose(rest.coef_, whole.coef_, atol=1e-5)
    of_rows = "mse_path_" if kind == "gaussian" else "deviance_path_"
    np.testing.assert_allclose(getattr(rest, of_rows), getattr(whole, of_rows), rtol=1e-6)
    if kind == "poisson" and number == 48:
        assert rest.report_.passes < 0.5 * whole.report_.passes


@pytest.mark.parametrize("kind", ["gaussian", "poisson"])
def test_folds_killed_here_go_on_on_a_cluster(kind, tmp_path, killed, request):
    """Rows are put into folds by the seed and the partitions, which are the same there."""
    data = da.from_array(X, chunks=(100, 6)), da.from_array(COUNTS, chunks=100)

    def fit(**more):
        return cv_of(kind, random_state=0).fit(*data, **more)

    whole = fit()
    killed(20, lambda: fit(checkpoint=tmp_path / "c", checkpoint_every=1))
    request.getfixturevalue("client")
    rest = fit(resume=tmp_path / "c")
    assert rest.report_.workers == 2
    assert rest.alpha_ == pytest.approx(whole.alpha_)
    np.testing.assert_allclose(rest.coef_, whole.coef_, atol=1e-5)


def test_folds_that_share_no_passes(tmp_path, killed, monkeypatch):
    """As those of many features; one fold is finished, one is begun, one is not."""
    monkeypatch.setattr("daskglm.fitting.penalty_cv.can_share", lambda *_: False)
    whole = cv_of("poisson", random_state=0).fit(X, COUNTS)
    fit = cv_of("poisson", random_state=0).fit
    killed(12, lambda: fit(X, COUNTS, checkpoint=tmp_path / "c", checkpoint_every=1))
    np.testing.assert_array_equal(saved_in(tmp_path / "c").counts, [[8, 4], [0, 0]])
    rest = fit(X, COUNTS, resume=tmp_path / "c")
    np.testing.assert_allclose(rest.deviance_path_, whole.deviance_path_, rtol=1e-6)


def test_folds_of_a_ridge_are_kept_as_grids_are(tmp_path):
    whole = cv_of("ridge", random_state=0).fit(X, COUNTS, checkpoint=tmp_path / "c")
    rest = cv_of("ridge", random_state=0).fit(X, COUNTS, resume=tmp_path / "c")
    assert rest.report_.passes < whole.report_.passes
    np.testing.assert_allclose(rest.coef_, whole.coef_, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"n_alphas": 13},
            "fit with alphas={'n_alphas': 12, 'eps': 0.001}, this one has alphas={'n_",
        ),
        ({"alphas": [1.0]}, r"this one has alphas=\[1.0\]"),
        # two strengths, no number of them and their range
        ({"alphas": [12, 1e-3]}, r"this one has alphas=\[12.0, 0.001\]"),
        ({"l1_ratio": 0.5}, "is of a fit with penalty="),
        ({"positive": True}, "is of a fit with penalty="),
        ({"family": "gamma", "y": COUNTS + 1.0}, "is of a fit with loss='poisson'"),
        ({"fit_intercept": False}, "is of a fit with fit_intercept=True"),
        ({"tol": 1e-3}, "is of a fit with tol=1e-12"),
        ({"X": X[1:], "y": COUNTS[1:]}, "other data: rows was 400, now it is 399"),
        ({"X": 2.0 * X}, "other data of the same shape"),
    ],
)
def test_other_paths_are_refused(changes, message, tmp_path):
    path(checkpoint=tmp_path / "c")
    with pytest.raises(ValueError, match=message):
        path(**changes, resume=tmp_path / "c")


def test_other_folds_and_mixes_are_refused(tmp_path):
    cv_of("poisson").fit(X, COUNTS, checkpoint=tmp_path / "c")
    with pytest.raises(ValueError, match="is of a fit with folds="):
        cv_of("poisson").set_params(cv=4).fit(X, COUNTS, resume=tmp_path / "c")
    with pytest.raises(ValueError, match=r"is of a fit with l1_ratio=\[0.3, 1.0\]"):
        cv_of("poisson").set_params(l1_ratio=[0.2, 1.0]).fit(X, COUNTS, resume=tmp_path / "c")
    # 8 strengths down to 1e-4 of the largest are not these two
    with pytest.raises(ValueError, match=r"this one has alphas=\[8.0, 0.0001\]"):
        cv_of("poisson").set_params(alphas=[8, 1e-4]).fit(X, COUNTS, resume=tmp_path / "c")
    with pytest.raises(ValueError, match="is of a fit with"):
        path(resume=tmp_path / "c")


def test_checkpoints_of_other_kinds_are_refused(tmp_path):
    path(checkpoint=tmp_path / "path")
    daskglm.fit(X, y, checkpoint=tmp_path / "fit")
    with pytest.raises(ValueError, match="it has format 'daskglm-path-checkpoint'"):
        daskglm.fit(X, y, resume=tmp_path / "path")
    with pytest.raises(ValueError, match="it has format 'daskglm-checkpoint'"):
        path(resume=tmp_path / "fit")
    with pytest.raises(FileNotFoundError, match="there is no checkpoint"):
        path(resume=tmp_path / "none")
    with pytest.raises(ValueError, match="checkpoint_every='soon' must be a number"):
        path(checkpoint=tmp_path / "c", checkpoint_every="soon")


def test_fits_that_overflow_are_no_place_to_go_on_from(tmp_path):
    alphas = [1.0, 0.1, 0.01]
    kept = path(alphas=alphas, checkpoint=tmp_path / "c", checkpoint_every=1)
    fits = saved_in(tmp_path / "c").fits
    settings = daskglm.GeneralizedLinearRegressor("poisson")._settings(
        checkpoint=tmp_path / "d", resume=tmp_path / "c"
    )
    again = PathFits(settings)
    again.identity = again.saved.identity
    bad = fits[1].__class__(0.1, np.full(7, np.nan), np.nan, np.nan, np.nan, 1, fits[1].reason)
    again.fits = {(0, 0): [fits[0], bad, fits[2]]}
    again.write()
    assert saved_in(tmp_path / "d").counts == 1
    assert len(kept.alphas) == 3


def test_stores_that_list_no_empty_folders(monkeypatch):
    """As s3: a prefix without a file is not there, before the first state is written."""

    def ls(self, path, **more):
        raise FileNotFoundError(path)

    monkeypatch.setattr(MemoryFileSystem, "ls", ls)
    whole = path(checkpoint="memory://penalty-path")
    np.testing.assert_array_equal(path(resume="memory://penalty-path").coefs, whole.coefs)


# ---- damage
def damaged(folder, change):
    """Change the arrays of a state."""
    file = folder / files.STATE
    arrays = dict(npz.read(file.read_bytes()))
    about = json.loads(arrays["about"].tobytes().decode())
    change(arrays, about)
    if "about" in arrays:
        arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    file.write_bytes(npz.write(arrays))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays, about: arrays.pop("about"), "its description is no text"),
        (lambda arrays, about: arrays.pop("w"), "no 'w'"),
        (lambda arrays, about: arrays.update(w=arrays["w"][:, 1:]), r"shape \(12, 6\)"),
        (lambda arrays, about: arrays.update(w=arrays["w"] * np.nan), "no 'w'"),
        (lambda arrays, about: arrays.update(alphas=-arrays["alphas"]), "no 'alphas'"),
        (lambda arrays, about: arrays.update(alphas=arrays["alphas"][:, :5]), "coefficients have"),
        (lambda arrays, about: arrays.update(finished=-arrays["finished"]), "coefficients have"),
        (lambda arrays, about: arrays.update(finished=1.0 * arrays["finished"]), "no 'finished'"),
        (lambda arrays, about: arrays.update(numbers=arrays["numbers"] * np.nan), "an objective"),
        (lambda arrays, about: about["reasons"].pop(), "coefficients have"),
        (lambda arrays, about: about["reasons"].append("EVIL"), "are not those for which fits end"),
        (lambda arrays, about: about.update(reasons=[[]] * 12), "are not those for which fits end"),
        (lambda arrays, about: about.update(version=9), "version 9"),
        (lambda arrays, about: about.update(counts=[]), "is no dictionary"),
        (lambda arrays, about: about["settings"].pop("fit_intercept"), "fit_intercept"),
    ],
)
def test_damaged_states_are_refused(change, message, tmp_path):
    path(checkpoint=tmp_path / "c")
    damaged(tmp_path / "c", change)
    with pytest.raises(ValueError, match=f"not a checkpoint of this version.*{message}"):
        path(resume=tmp_path / "c")


def test_a_file_that_is_none_is_refused(tmp_path):
    (tmp_path / files.STATE).write_bytes(b"nothing")
    with pytest.raises(ValueError, match="not a checkpoint of this version of daskglm, or damaged"):
        path(resume=tmp_path)


def test_folders_are_checked_before_data(tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / files.STATE).mkdir()
    with pytest.raises(ValueError, match="is a folder, a pipe or a device"):
        path(np.full((3, 2), np.nan), np.ones(3), checkpoint=tmp_path / "c")
