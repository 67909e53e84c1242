"""Files of models as they are on disk: strict JSON, with large coefficients in an .npz beside it.

A file may come from anybody: sizes, headers and every field are checked before what they announce
is read or made. Estimators are not made here: `persistence` does, and their modules take a second
to import.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from daskglm.core.arguments import shown
from daskglm.data import npz
from daskglm.fitting import schema
from daskglm.frames.roles import ROLES

if TYPE_CHECKING:
    from daskglm.frames.design import Design

FORMAT, VERSION = "daskglm-model", 2
# Files of version 1 have no record of the fit, which is then made of the parameters.
VERSIONS = (1, VERSION)
# Most coefficients that are written as JSON; more go to a file beside.
LARGEST_INLINE = 10_000

# Kinds of models that a file may hold.
OF_FAMILIES = (
    "GeneralizedLinearRegressor",
    "PoissonRegressor",
    "GammaRegressor",
    "TweedieRegressor",
)
ESTIMATORS = (
    *("LogisticRegression", "LinearSVC", "Ridge", "Lasso", "ElasticNet", "OrdinalRegression"),
    *("ElasticNetCV", "LassoCV", *OF_FAMILIES),
    *("QuantileRegressor", "HuberRegressor", "LinearSVR"),
    *("LinearClassifier", "LinearRegressor"),
)
ORDERED = "OrdinalRegression"
_KEYS = (
    "params",
    "classes",
    "n_features",
    "feature_names",
    "coef",
    "intercept",
    "n_iter",
    "report",
)
_OPTIONAL = (
    "arrays",
    "family_parameter",
    "scale",
    "tried",
    "fitted_with",
    "design",
    "roles",
    "told",
)
RECORD = "record"
_DIGEST = re.compile(r"[0-9a-f]{64}")


def read(path: Path) -> dict[str, Any]:
    """Return the content of a file, of which format, version and keys are checked."""
    return parsed(_text(path), path)


def _text(path: Path) -> bytes:
    """Read a file of JSON, at most the bytes that what it declares can take."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a daskglm model: it is a folder, a pipe or a device")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(min(size, schema.MOST_BYTES))
        if size > (most := schema.room(start)):
            raise ValueError(
                f"{path} is not a daskglm model: it has {size:,} bytes, more than the {most:,} "
                "bytes that the features it declares can take"
            )
        return start + file.read(size - len(start))


def parsed(text: bytes, path: Path) -> dict[str, Any]:
    """JSON of the right format, version and keys."""
    try:
        content = schema.parse(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a daskglm model: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path} is not a daskglm model: it has no format {FORMAT!r}")
    version = content.get("version")
    if type(version) is not int or version not in VERSIONS:
        raise ValueError(
            f"{path} has version {version!r}; this daskglm reads versions "
            f"{' and '.join(map(str, VERSIONS))}"
        )
    if content.get("estimator") not in ESTIMATORS:
        raise ValueError(
            f"{path} holds a {content.get('estimator')!r}; known are {', '.join(ESTIMATORS)}"
        )
    keys = _KEYS if version == 1 else (*_KEYS, RECORD)
    missing = [key for key in keys if key not in content]
    if missing:
        raise ValueError(f"{path} is damaged: it has no {', '.join(map(repr, missing))}")
    unknown = sorted(set(content) - {"format", "version", "estimator", *_OPTIONAL, *keys})
    if unknown:
        raise ValueError(f"{path} is damaged: version {version} has no {unknown[0]!r}")
    return content


# ---- fields
@contextlib.contextmanager
def damage_told(path: Path) -> Iterator[None]:
    """Raise ValueError, which names the file, for whatever a field that is damaged leads to."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        what = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise ValueError(f"{path} is damaged: {what}") from error


Shapes = tuple[tuple[int, ...], tuple[int, ...]]


def labels_of(content: dict[str, Any]) -> np.ndarray | None:
    """Check and return the labels of classes; None for a regression."""
    if content["classes"] is None:
        return None
    return schema.classes(content["classes"], own_order=content["estimator"] == ORDERED)


def shapes_of(content: dict[str, Any], classes: np.ndarray | None) -> Shapes:
    """Return the shapes of the coefficients, and of the intercepts or thresholds."""
    d = schema.integer(content["n_features"], "n_features", 0)
    if classes is None:
        return (d,), ()
    if content["estimator"] == ORDERED:
        return (d,), (len(classes) - 1,)
    problems = 1 if len(classes) == 2 else len(classes)
    return (problems, d), (problems,)


class Table(NamedTuple):
    """What a file says of columns: names of features, those with roles, and the design.

    Names are `told` by an encoder where rows had none.
    """

    names: np.ndarray | None
    design: Design | None
    roles: dict[str, str]
    fitted_with: tuple[str, ...]
    told: bool = False

    @property
    def coefficients(self) -> np.ndarray | None:
        """Names of the coefficients."""
        if self.design is None:
            return self.names
        return np.array(self.design.names, dtype=object)

    @property
    def named(self) -> bool:
        """Whether the rows of the fit had names."""
        return self.design is not None or (self.names is not None and not self.told)

    def features(self, d: int) -> int:
        """Return the number of columns of the rows of a model of d coefficients."""
        return d if self.design is None else len(self.design.columns)

    def set(self, model: Any, d: int) -> None:
        """Set the attributes of a model of d coefficients."""
        model.fitted_with_, model.roles_ = self.fitted_with, self.roles
        model.n_features_in_ = self.features(d)
        names = self.names
        if self.design is not None:
            model.schema_, model.feature_names_out_ = self.design, self.coefficients
            names = np.array(self.design.columns, dtype=object)
        if names is not None:
            setattr(model, "feature_names_out_" if self.told else "feature_names_in_", names)


def table_of(content: dict[str, Any], d: int) -> Table:
    """Check what a file says of the columns of a model of d coefficients."""
    names = schema.feature_names(content["feature_names"], d)
    design = None
    if "design" in content:
        from daskglm.frames.file import design_from_json  # which imports what tables are made of

        design = design_from_json(content["design"])
    if design is not None and (names is not None or len(design.names) != d):
        raise ValueError(f"a design of {len(design.names)} coefficients, the model of {d}")
    roles, fitted_with = content.get("roles", {}), content.get("fitted_with", [])
    right = isinstance(roles, dict) and all(isinstance(name, str) for name in roles.values())
    if not right or set(roles) - set(ROLES):
        raise ValueError(f"it has the roles {shown(roles)}")
    if fitted_with not in ([], ["offset"], ["exposure"], ["offset", "exposure"]):
        raise ValueError(f"it was fitted with {shown(fitted_with)}")
    if (told := content.get("told", False)) is not False and (told is not True or names is None):
        raise ValueError(f"told is {shown(told)}, of the names {shown(names)}")
    return Table(names, design, dict(roles), tuple(fitted_with), told)


# ---- arrays
def coefficients(
    content: dict[str, Any],
    path: Path,
    shapes: Shapes,
    arrays: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and intercepts, from the file or the one beside it.

    `arrays` are those of the file beside it, if they are at hand.
    """
    where = content.get("arrays")
    if where is None:
        coef, intercept = (
            schema.numbers(content[name], shape, name)
            for name, shape in zip(("coef", "intercept"), shapes, strict=True)
        )
        return coef, intercept
    if (
        content["coef"] is not None
        or content["intercept"] is not None
        or set(where) != {"file", "sha256"}
    ):
        raise ValueError(f"it has coefficients itself and beside it, by {str(where)[:80]}")
    name, digest = where["file"], where["sha256"]
    if (
        not isinstance(name, str)
        or Path(name).name != name
        or "\\" in name
        or not name.isprintable()
    ):
        raise ValueError(f"{name!r} is not the name of a file beside it")
    if not isinstance(digest, str) or not (_DIGEST.fullmatch(digest)):
        raise ValueError(f"the digest of its arrays is {digest!r}")
    coef, intercept = arrays or _beside(path, name, shapes)
    if digest_of(coef, intercept) != digest:
        raise ValueError(f"the coefficients in {name!r} are those of another model")
    return coef, intercept


def _beside(path: Path, name: str, shapes: Shapes) -> tuple[np.ndarray, np.ndarray]:
    """Read coefficients from the file beside, after its headers are compared with the model."""
    beside = path.with_name(name)
    if not beside.exists():
        raise ValueError(
            f"it keeps its coefficients in {name!r}, which is not beside it: move both files "
            "together"
        )
    if not beside.is_file():
        raise ValueError(
            f"{name!r}, which should hold its coefficients, is a folder, a pipe or a device"
        )

    def check(headers: Mapping[str, npz.Header]) -> None:
        found = {key: (header.shape, header.dtype) for key, header in headers.items()}
        wanted = {"coef": (shapes[0], np.dtype("<f8")), "intercept": (shapes[1], np.dtype("<f8"))}
        if found != wanted:
            shown = ", ".join(
                f"{key} of shape {shape} and dtype {dtype}" for key, (shape, dtype) in found.items()
            )
            raise ValueError(
                f"it holds {shown or 'nothing'}; the model has coef of shape {shapes[0]} in float64"
            )

    try:
        held = npz.read(beside, check)
    except (ValueError, OSError) as error:
        raise ValueError(f"{name!r} beside it is damaged: {error}") from error
    coef, intercept = held["coef"], held["intercept"]
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise ValueError(f"coefficients in {name!r} are not finite")
    return coef, intercept


def digest_of(coef: np.ndarray, intercept: np.ndarray) -> str:
    """Return a checksum of the arrays of a model."""
    little = [np.ascontiguousarray(array, dtype="<f8") for array in (coef, intercept)]
    return hashlib.sha256(b"".join(array.tobytes() for array in little)).hexdigest()
