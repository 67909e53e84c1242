"""The script that runs other projects' tests: how it patches their files, and that its list of causes is sound."""

import fnmatch
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import daskglm
from tests.compatibility.__main__ import EXPECTED, cause_of, run, tell
from tests.compatibility.patch import (
    ACCEL,
    PEERS,
    SUITES,
    functions_about,
    patched,
    sklearn_header,
    write_peer,
    write_plain,
    write_sklearn,
)

SOURCE = '''"""Words."""
import numpy as np
from sklearn import svm, datasets
from sklearn.linear_model import (
    LogisticRegression,
    SGDClassifier,
)

def test_one():
    assert LogisticRegression

@parametrize("cls", [svm.LinearSVC])
def test_two(cls):
    assert cls
'''


def test_names_mean_our_estimators_after_the_imports():
    text = patched(SOURCE, sklearn_header(SOURCE))
    assert text.index("SGDClassifier") < text.index("_daskglm") < text.index("def test_one")
    scope = {}
    exec(text.split("def test_one")[0], scope)
    assert scope["LogisticRegression"] is daskglm.LogisticRegression
    assert scope["svm"].LinearSVC is daskglm.LinearSVC
    assert scope["svm"].SVC.__module__.startswith("sklearn")
    assert "sklearn" in scope["SGDClassifier"].__module__


def test_tests_are_chosen_by_a_word_in_them():
    assert functions_about(SOURCE, "LinearSVC") == ["test_two"]
    assert functions_about(SOURCE, None) == ["test_one", "test_two"]


@pytest.mark.slow
def test_files_of_the_scikit_learn_that_is_installed_can_be_patched(tmp_path):
    for suite in SUITES:
        path, functions = write_sklearn(suite, tmp_path)
        compile(path.read_text(), str(path), "exec")
        assert len(functions) >= 10
    copies = {write_plain(suite, tmp_path) for suite in ACCEL}
    assert len(copies) == len(ACCEL)
    assert all("def test_" in path.read_text() for path in copies)


@pytest.mark.slow
def test_files_are_run_under_accel(tmp_path):
    path = tmp_path / "under.py"
    path.write_text(
        "from sklearn.linear_model import Ridge\nimport daskglm.accel\n"
        "def test_one():\n    Ridge().fit([[0.0], [1.0]], [0.0, 1.0])\n"
        "    assert 'Ridge: 1 taken' in daskglm.accel.report()\n"
    )
    plugins = ["-p", "tests.compatibility.under_accel", "-p", "sklearn.conftest"]
    assert run(path, [], 120, plugins=plugins) == {"test_one": ("passed", "")}


def test_causes_are_told_and_unknown_failures_are_errors(capsys):
    known = json.loads(EXPECTED.read_text())
    assert all(entry["cause"] and entry["tests"] for entries in known.values() for entry in entries)
    assert all(
        not fnmatch.fnmatchcase("test_", each)
        for entries in known.values()
        for e in entries
        for each in e["tests"]
    )
    suite, entries = next((suite, entries) for suite, entries in known.items() if entries)
    failed = entries[0]["tests"][0].replace("*", "[x]")
    assert cause_of(suite, failed) == entries[0]["cause"]
    assert not tell(suite, {failed: ("failed", "why"), "test_a": ("passed", "")})
    assert tell(suite, {"test_new_thing": ("failed", "something")})
    assert "UNEXPECTED test_new_thing: something" in capsys.readouterr().out


# A file of another project in miniature.
PEER = """
def test_one():
    assert True

class TestA:
    def test_two(self):
        import pytest
        pytest.skip("not applicable: plots")

class TestB:
    def test_two(self):
        assert False, "the third"
"""


@pytest.mark.slow
def test_tests_of_classes_are_told_apart_and_what_is_not_applicable_by_reasons(tmp_path, capsys):
    path = tmp_path / "peer_things.py"
    path.write_text(PEER)
    found = run(path, [], 60)
    assert {test: outcome for test, (outcome, _) in found.items()} == {
        "test_one": "passed",
        "TestA::test_two": "skipped",
        "TestB::test_two": "failed",
    }
    assert tell("peer_things.py", found, "a title")
    told = capsys.readouterr().out
    assert "a title: 1 passed, 1 failed, 0 skipped, 1 not applicable" in told
    assert "1  not applicable: plots" in told
    assert "UNEXPECTED TestB::test_two: AssertionError: the third" in told


# A checkout: data beside the tests, relative imports, a question for git.
@pytest.mark.parametrize(
    ("package", "source"),
    [
        ("glum", "from git_root import git_root\nfrom glum import GeneralizedLinearRegressor"),
        ("celer", "from sklearn.linear_model import Lasso"),
        ("statsmodels", "import statsmodels.api as sm\nif False:\n    from .results import two"),
    ],
    ids=["glum", "celer", "statsmodels"],
)
def test_files_of_other_projects_get_our_estimators(tmp_path, monkeypatch, package, source):
    if package != "celer":
        pytest.importorskip(package, reason=f"{package} is not installed")
    suite = next(suite for suite in PEERS if suite.package == package)
    root, copies = tmp_path / "root", tmp_path / "copies"
    file = root / suite.path
    file.parent.mkdir(parents=True)
    copies.mkdir()
    file.write_text(f"from pathlib import Path\n{source}\nHERE = Path(__file__).parent\n")
    text = write_peer(suite, root, copies).read_text()
    monkeypatch.syspath_prepend(copies)
    scope = {}
    exec(text, scope)
    assert scope["HERE"] == file.parent
    if package == "glum":
        ours = scope["GeneralizedLinearRegressor"]
        assert ours._class is daskglm.GeneralizedLinearRegressor
        assert Path(scope["git_root"]("tests/data.json")) == root / "tests" / "data.json"
    elif package == "celer":
        assert isinstance(scope["Lasso"](1.0), daskglm.Lasso)
    else:
        assert scope["sm"].GLM.__module__ == "tests.compatibility.as_statsmodels"
        assert scope["sm"].OLS.__module__.startswith("statsmodels")
        assert "from statsmodels.genmod.tests.results import two" in text


def test_statsmodels_results_are_ours_under_its_names():
    sm = pytest.importorskip("statsmodels.api", reason="statsmodels is not installed")
    from tests.compatibility.as_statsmodels import GLM

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(80, 2)), columns=["a", "b"])
    X.insert(1, "const", 1.0)  # amid the others, where ours is last
    y = pd.Series(rng.poisson(np.exp(0.3 + 0.5 * X["a"])).astype(float))
    for weights in ({}, {"freq_weights": rng.integers(1, 4, 80)}, {"exposure": np.ones(80) / 2}):
        ours, theirs = (
            cls(y, X, family=sm.families.Poisson(), **weights).fit() for cls in (GLM, sm.GLM)
        )
        assert isinstance(ours.inference, daskglm.Inference)
        for name in ("params", "bse", "pvalues"):
            pd.testing.assert_series_equal(
                getattr(ours, name), getattr(theirs, name), check_names=False, rtol=1e-5
            )
        np.testing.assert_allclose(ours.cov_params(), theirs.cov_params(), rtol=1e-4)
        for name in ("llf", "deviance", "null_deviance", "df_resid", "pearson_chi2", "scale"):
            assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-6), name
        np.testing.assert_allclose(ours.predict(X[:5]), theirs.predict(X[:5]), rtol=1e-6)
    with pytest.raises(pytest.skip.Exception, match="not applicable: plots"):
        getattr(ours, "plot_added_variable")  # noqa: B009
    with pytest.raises(AttributeError, match="missing: nothing_like_it"):
        getattr(ours, "nothing_like_it")  # noqa: B009


def test_glum_parameters_are_translated():
    glum = pytest.importorskip("glum", reason="glum is not installed")
    from tests.compatibility.as_glum import GeneralizedLinearRegressor, GeneralizedLinearRegressorCV

    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = rng.poisson(np.exp(0.3 + 0.5 * X[:, 0])).astype(float)
    for given in (
        {"P1": np.array([1.0, 0.0, 2.0]), "l1_ratio": 1, "alpha": 0.1},
        {"P2": np.array([1.0, 0.5, 2.0]), "alpha": 0.1},
        {"upper_bounds": np.full(3, 0.2), "scale_predictors": True, "alpha": 0.1},
        {"family": "negative.binomial (0.5)", "fit_intercept": False},
    ):
        given = {"family": "poisson", "gradient_tol": 1e-8, **given}
        ours = GeneralizedLinearRegressor(**given).fit(X, y)
        theirs = glum.GeneralizedLinearRegressor(**given).fit(X, y)
        assert isinstance(ours._ours, daskglm.GeneralizedLinearRegressor)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
        np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-5)
    ours, theirs = (
        cls(family="normal", gradient_tol=1e-8).fit(X, y)
        for cls in (GeneralizedLinearRegressor, glum.GeneralizedLinearRegressor)
    )
    for robust in (True, False):
        np.testing.assert_allclose(
            ours.std_errors(X, y, robust=robust), theirs.std_errors(X, y, robust=robust), rtol=1e-6
        )
    with pytest.raises(pytest.skip.Exception, match="not applicable: paths"):
        GeneralizedLinearRegressor(alpha_search=True).fit(X, y)
    with pytest.raises(pytest.skip.Exception, match="not applicable: glum's aicc"):
        ours.aicc(X, y)
    cv = GeneralizedLinearRegressorCV(alphas=[0.1, 0.01], family="poisson").fit(X, y)
    assert cv.alpha_ in (0.1, 0.01)


@pytest.mark.parametrize("problem", ["lasso", "logreg"])
def test_paths_of_celer_are_fits_of_ours(problem):
    from tests.compatibility import as_celer

    rng = np.random.default_rng(0)
    X = scipy.sparse.csc_matrix(rng.normal(size=(40, 6)))
    y = X @ rng.normal(size=6)
    y = np.sign(y) if problem == "logreg" else y
    weights = np.array([1.0, 2.0, 1.0, 0.5, 1.0, 1.0])
    alphas, coefs, gaps, steps = as_celer.celer_path(
        X, y, problem, n_alphas=4, eps=0.05, weights=weights, return_n_iter=True
    )
    assert coefs.shape == (6, 4)
    assert (coefs[:, 0] == 0).all()
    assert (coefs[:, 3] != 0).any()
    assert (gaps < 1e-6 * len(y)).all()
    assert (steps >= 1).all()
    if problem == "lasso":
        model = as_celer.Lasso(alphas[3], weights=weights, fit_intercept=False, tol=1e-12, p0=10)
        np.testing.assert_allclose(model.fit(X, y).coef_, coefs[:, 3], atol=1e-5)
        assert model.weights is model.penalty_factor
