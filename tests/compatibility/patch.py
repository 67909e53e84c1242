"""Copies of other projects' test files in which the estimators' names mean this package's."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

SKLEARN_NAMES = (
    "ElasticNet",
    "ElasticNetCV",
    "HuberRegressor",
    "Lasso",
    "LassoCV",
    "LinearSVC",
    "LinearSVR",
    "LogisticRegression",
    "LogisticRegressionCV",
    "QuantileRegressor",
    "Ridge",
)

# Names of whole modules, as in `svm.LinearSVC`: a namespace with our estimators and all else of the module.
MODULES = """
import types as _types

def _with_ours(module):
    names = dict(vars(module))
    names.update((name, getattr(_daskglm, name)) for name in {names} if name in names)
    return _types.SimpleNamespace(**names)
"""

# dask-ml's least squares have no penalty unless they are told to, which is C = inf here.
DASK_ML = """
from daskglm import LogisticRegression

class LinearRegression(_daskglm.Ridge):
    def __init__(self, fit_intercept=True):
        super().__init__(C=float("inf"), fit_intercept=fit_intercept)
"""


# The tests compute optima with the loss object that an estimator of scikit-learn has, and make a BinomialRegressor.
GLM = """
import sklearn.linear_model as _theirs
from daskglm.losses.table import loss_of_family as _loss_of_family
from sklearn._loss import HalfSquaredError as _HalfSquaredError

class PoissonRegressor(_daskglm.PoissonRegressor):
    _get_loss = _theirs.PoissonRegressor._get_loss

class GammaRegressor(_daskglm.GammaRegressor):
    _get_loss = _theirs.GammaRegressor._get_loss

class TweedieRegressor(_daskglm.TweedieRegressor):
    _get_loss = _theirs.TweedieRegressor._get_loss

class _GeneralizedLinearRegressor(_daskglm.GeneralizedLinearRegressor):
    def _get_loss(self, xp=None, device=None):
        return _HalfSquaredError()

    @property
    def _loss(self):
        binomial = type(self._get_loss()).__name__ == "HalfBinomialLoss"
        return _loss_of_family("binomial" if binomial else "gaussian").full_name
"""


@dataclass(frozen=True)
class Suite:
    """A file of tests, by the package it lies in, and which of its functions count (all, or those that a pattern fits).

    `header` is what its tests need besides the estimators. `given` names the argument of the command line that has the
    folder of the file, where the package that is installed has no tests. Of `chosen`, tests have one in their names.
    """

    name: str
    package: str
    path: str
    about: str | None = None
    header: str = ""
    given: str | None = None
    chosen: tuple[str, ...] = ()


SUITES = (
    Suite("test_glm_sklearn.py", "sklearn", "linear_model/_glm/tests/test_glm.py", header=GLM),
    Suite("test_logistic.py", "sklearn", "linear_model/tests/test_logistic.py"),
    Suite("test_ridge.py", "sklearn", "linear_model/tests/test_ridge.py", r"Ridge\("),
    Suite("test_svm.py", "sklearn", "svm/tests/test_svm.py", "LinearSV"),
    Suite("test_huber.py", "sklearn", "linear_model/tests/test_huber.py"),
    Suite("test_quantile.py", "sklearn", "linear_model/tests/test_quantile.py"),
    Suite(
        "test_coordinate_descent.py",
        "sklearn",
        "linear_model/tests/test_coordinate_descent.py",
        r"\b(?<!MultiTask)(Lasso|ElasticNet)(CV)?\b",
    ),
)


# As they are, under `daskglm.accel`.
ACCEL = tuple(
    Suite(f"accel_{Path(path).name}", "sklearn", path)
    for path in (
        "linear_model/tests/test_logistic.py",
        "linear_model/tests/test_ridge.py",
        "linear_model/tests/test_coordinate_descent.py",
        "linear_model/tests/test_huber.py",
        "linear_model/tests/test_quantile.py",
        "linear_model/tests/test_common.py",
        "linear_model/_glm/tests/test_glm.py",
        "svm/tests/test_svm.py",
    )
)
# The common tests of all of scikit-learn's estimators.
ACCEL += (
    Suite(
        "accel_tests_test_common.py",
        "sklearn",
        "tests/test_common.py",
        chosen=(*SKLEARN_NAMES, "PoissonRegressor", "GammaRegressor", "TweedieRegressor"),
    ),
)


STATSMODELS = """
from tests.compatibility.as_statsmodels import GLM
sm = __import__("types").SimpleNamespace(**{{**vars(sm), "GLM": GLM}})
"""
GLUM = """
from tests.compatibility.as_glum import GeneralizedLinearRegressor, GeneralizedLinearRegressorCV
"""
CELER = """
import tests.compatibility.as_celer as _ours
globals().update({{name: getattr(_ours, name) for name in {names} if name in globals()}})
"""
CELER_NAMES = (
    "Lasso",
    "LassoCV",
    "ElasticNet",
    "ElasticNetCV",
    "LogisticRegression",
    "celer_path",
    "sklearn_LassoCV",
    "sk_ElasticNetCV",
)

PEERS = (
    Suite("statsmodels_glm.py", "statsmodels", "genmod/tests/test_glm.py", None, STATSMODELS),
    Suite(
        "statsmodels_weights.py",
        "statsmodels",
        "genmod/tests/test_glm_weights.py",
        None,
        STATSMODELS,
    ),
    Suite("glum_golden_master.py", "glum", "tests/glm/test_golden_master.py", None, GLUM, "glum"),
    Suite("glum_regressor.py", "glum", "tests/glm/test_glm_regressor.py", None, GLUM, "glum"),
    Suite("glum_cv.py", "glum", "tests/glm/test_glm_cv.py", None, GLUM, "glum"),
    Suite("celer_lasso.py", "celer", "celer/tests/test_lasso.py", None, CELER, "celer"),
    Suite("celer_enet.py", "celer", "celer/tests/test_enet.py", None, CELER, "celer"),
    Suite("celer_logreg.py", "celer", "celer/tests/test_logreg.py", None, CELER, "celer"),
)


def patched(source: str, header: str) -> str:
    """The source with `header` after its last import at the top level."""
    imports = [
        node for node in ast.parse(source).body if isinstance(node, (ast.Import, ast.ImportFrom))
    ]
    lines = source.splitlines(keepends=True)
    end = imports[-1].end_lineno or len(lines)
    return "".join([*lines[:end], header, *lines[end:]])


def sklearn_header(source: str) -> str:
    """Imports of our estimators, under the names that this file gives to scikit-learn's."""
    used, modules = set(), set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sklearn"):
            names = {alias.asname or alias.name for alias in node.names}
            used |= names & set(SKLEARN_NAMES)
            modules |= names & {"svm", "linear_model"} if node.module == "sklearn" else set()
    header = "\nimport daskglm as _daskglm\n" + "".join(
        f"{name} = _daskglm.{name}\n" for name in sorted(used)
    )
    if modules:
        header += MODULES.format(names=SKLEARN_NAMES)
        header += "".join(f"{name} = _with_ours({name})\n" for name in sorted(modules))
    return header


def functions_about(source: str, word: str | None) -> list[str]:
    """Names of the test functions whose text, decorators included, has the word."""
    found = []
    for node in ast.parse(source).body:
        if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test"):
            continue
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        text = "\n".join(source.splitlines()[first - 1 : node.end_lineno])
        if word is None or re.search(word, text):
            found.append(node.name)
    return found


def write_sklearn(suite: Suite, folder: Path) -> tuple[Path, list[str]]:
    """The patched copy of one of scikit-learn's files, and the tests of it that count."""
    import sklearn

    source = (Path(sklearn.__file__).parent / suite.path).read_text()
    path = folder / suite.name
    path.write_text(patched(source, sklearn_header(source) + suite.header))
    return path, functions_about(source, suite.about)


def write_plain(suite: Suite, folder: Path) -> Path:
    """A copy of one of scikit-learn's files, as it is."""
    import sklearn

    path = folder / suite.name
    path.write_bytes((Path(sklearn.__file__).parent / suite.path).read_bytes())
    return path


def write_peer(suite: Suite, root: Path, folder: Path) -> Path:
    """The patched copy of a file of another project, whose `suite.path` lies under `root`."""
    source = (root / suite.path).read_text()
    package = f"{suite.package}.{'.'.join(Path(suite.path).parts[:-1])}"
    source = re.sub(r"^(\s*from )\.(?=\w)", rf"\1{package}.", source, flags=re.MULTILINE)
    path = folder / suite.name
    source = source.replace("__file__", repr(str(root / suite.path)))
    header = suite.header.format(names=CELER_NAMES)
    path.write_text(patched(source, header))
    # glum's tests ask git where they are
    (folder / "git_root.py").write_text(
        f"import os\n\ndef git_root(*parts):\n    return os.path.join({str(root)!r}, *parts)\n"
    )
    return path


def write_dask_ml(given: Path, folder: Path) -> tuple[Path, list[str]]:
    """The patched copy of dask-ml's test_glm.py, given as a file or as a checkout, and the conftest that it wants.

    dask-ml skips the whole file on recent versions of dask; that mark goes.
    """
    given = given / "tests" / "linear_model" / "test_glm.py" if given.is_dir() else given
    source = given.read_text()
    mark = next(
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "pytestmark"
    )
    lines = source.splitlines(keepends=True)
    source = "".join([*lines[: mark.lineno - 1], *lines[mark.end_lineno :]])
    path = folder / "test_glm.py"
    path.write_text(patched(source, "\nimport daskglm as _daskglm\n" + DASK_ML))
    fixtures = next(
        (parent / "conftest.py" for parent in given.parents if (parent / "conftest.py").exists()),
        None,
    )
    if fixtures is not None:
        (folder / "conftest.py").write_text(fixtures.read_text())
    return path, functions_about(source, None)
