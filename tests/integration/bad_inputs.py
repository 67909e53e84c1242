"""Bad inputs as data: what is given, at which faces of the package, and what the error must say.

A row is `Bad(id, given, faces, error, says)`, `given` a dict of arguments of `daskglm.fit` or of an estimator, or a
function that spoils `(X, y, sample_weight)`. `says` is a regular expression that the message must hold: the argument
with its value, or the place; `{row 217}` in it stands for row 217 as the face names it ("partition 2, row 17" of a
dask array). To add a row, append it to a list below; `tests/integration/test_bad_inputs.py` tries it at every one of its faces.
"""

import re
from typing import Any, NamedTuple

import dask
import dask.bag
import dask.dataframe
import numpy as np
import pandas as pd
import scipy.sparse as sp

import daskglm

N, D, CHUNK = 300, 4, 100

FIT = (
    "fit",
    "array",
    "frame",
    "cluster",
)  # daskglm.fit: in memory, on dask collections, on a client
PARAMETERS = (*FIT, "estimator")
EVERY = (*PARAMETERS, "cv", "path")
ROWS = (
    "fit",
    "estimator",
    "cv",
    "path",
    "array",
    "client",
    "cluster",
    "score",
    "score lazy",
)  # rows as arrays
MEMORY = ("fit", "estimator", "cv", "path", "client", "score")
FITTING = (*(face for face in ROWS if not face.startswith("score")), "frame")
LOSSES = (
    "squared_hinge",
    "hinge",
    "smoothed_hinge",
    "squared",
)  # besides "logistic", which all other rows have
PENALISED = ("fit", "array", "path", "estimator", "ridge")  # that take parameters of the penalty
PREDICT = ("predict", "predict lazy")


class Bad(NamedTuple):
    """One bad input."""

    id: str
    given: Any
    faces: tuple[str, ...]
    error: type[Exception] | tuple[type[Exception], ...]
    says: str
    loads: bool = False  # whether the data must be loaded to know


def value(name, values, faces, says, error=ValueError):
    """Rows for bad values of one argument; `{}` in `says` stands for the value."""
    for given in values:
        shown = re.escape(repr(given)[:20])
        yield Bad(
            f"{name}={repr(given)[:30]}", {name: given}, faces, error, says.replace("{}", shown)
        )


def options(solver, name, values):
    """Rows for bad values of one option of a solver."""
    for given in values:
        shown = re.escape(repr(given)[:20])
        arguments = {"solver": solver, "solver_options": {name: given}}
        yield Bad(
            f"{solver} {name}={repr(given)[:30]}",
            arguments,
            ("fit", "estimator", "array"),
            ValueError,
            f"{name}={shown}",
        )


FITTED = daskglm.LogisticRegression().fit(np.eye(6), [0, 1] * 3)  # of six features
UNFITTED = daskglm.LogisticRegression(C=3.0)
NAN, INF = np.nan, np.inf

ARGUMENTS = [
    *value(
        "C",
        ["a", None, NAN, 0, -1.0, True, 1j, {"C": 1}, b"1"],
        PARAMETERS,
        "C={} must be a positive number",
    ),
    *value(
        "C",
        [[], [1, "a"], [1.0, -1.0], (NAN,), [[1.0]]],
        FIT,
        "C={}.* must be a sequence|C={}.* is not a sequence",
    ),
    *value(
        "tol",
        ["a", None, NAN, -1e-3, INF, True, [1e-3], 1j],
        EVERY,
        "tol={} must be a finite number",
    ),
    *value("max_iter", [-1, 2.5, "a", True, NAN, [10]], EVERY, "max_iter={} must be"),
    *value(
        "fit_intercept",
        ["no", 1, None, [True], 0.0],
        EVERY,
        "fit_intercept={} must be True or False",
    ),
    *value(
        "loss",
        ["cauchy", ["logistic"], 3, None, {"logistic"}],
        (*FIT, "path"),
        "loss={} is not one of 'logistic'",
    ),
    *value(
        "solver", ["magic", ["newton"], 3, None, ("auto",)], EVERY, "solver={} is not one of 'auto'"
    ),
    *value(
        "class_weight",
        ["heavy", [1.0, 2.0], 3, NAN, np.ones(2), True],
        EVERY,
        "class_weight={} must be a dict",
    ),
    *value(
        "class_weight",
        [{0: INF}, {0: "a"}, {0: NAN}, {0: -1}, {0: None}, {0: [1]}, {0: 1j}],
        EVERY,
        "class_weight={}.*the weight of 0 is .*not a finite number",
    ),
    *value(
        "random_state",
        ["a", -1, 2.5, NAN, True, [1], 2**40],
        EVERY,
        "random_state={} must be an integer",
    ),
    Bad(
        "random_state=Generator",
        {"random_state": np.random.default_rng(0)},
        EVERY,
        ValueError,
        "random_state=Generator.* must be an integer",
    ),
    *value(
        "progress",
        ["yes", 1, 0.5, "no", []],
        (*PARAMETERS, "path"),
        "progress={} must be True or False, or None",
    ),
    *value(
        "device",
        ["gpu", 3, ["cuda"], True, "cuda:0"],
        (*PARAMETERS, "path"),
        "device={} is not one of",
    ),
    *value(
        "device_memory_limit",
        ["much", -1, 0, NAN, INF, True, [1], "-8GB", {}],
        (*PARAMETERS, "path"),
        "device_memory_limit={} (is not a number of bytes|must be positive)",
    ),
    *value(
        "solver_options",
        [3, [("step", 1)], "step", {1: 2}, True],
        (*PARAMETERS, "path"),
        "solver_options={} must be a dict",
        TypeError,
    ),
    *value(
        "solver_options",
        [{"stepp": 1}, {"step": 1}],
        (*PARAMETERS, "path"),
        "solver='auto' does not take step",
    ),
    *value(
        "checkpoint",
        [3, True, ["a"], 2.5],
        (*FIT, "path"),
        "checkpoint={} must be the path",
        TypeError,
    ),
    *value(
        "resume", [3, True, ["a"], b"a"], (*FIT, "path"), "resume={} must be the path", TypeError
    ),
    *value("resume", ["", " "], FIT, "resume={} is empty"),
    *value("checkpoint", ["", " "], FIT, "checkpoint={} is empty"),
    *value(
        "resume", ["missing/folder"], (*FIT, "path"), "resume={}.*no checkpoint", FileNotFoundError
    ),
    *value(
        "checkpoint_every",
        [0, -1, "soon", True, 2.5, None, NAN, [1], "0s", "-5s", "5"],
        FIT,
        "checkpoint_every={} must be a number of iterations, or a time",
    ),
    *value("out_of_core", ["yes", 1, None, 0], FIT, "out_of_core={} must be True or False"),
    *value(
        "callback",
        [3, "print", [print], {}, True],
        FIT,
        "callback={}.* cannot be called",
        TypeError,
    ),
    *value(
        "client",
        ["tcp://127.0.0.1:8786"],
        FIT,
        r"client={}.*connect first: client=distributed.Client\('tcp",
        TypeError,
    ),
    *value(
        "client",
        [3, True, object, {}, [1]],
        FIT,
        "client={}.*is not a distributed.Client",
        TypeError,
    ),
    *value(
        "warm_start",
        [3, "a", True, {}, np.ones(D), (1, 2, 3), [], (np.ones(D),), {"coef": 1}],
        FIT,
        "warm_start=.* must be a fitted estimator, or a pair",
        TypeError,
    ),
    Bad(
        "warm_start unfitted",
        {"warm_start": UNFITTED},
        FIT,
        TypeError,
        r"warm_start=LogisticRegression\(C=3.0\) is not fitted",
    ),
    Bad(
        "warm_start of 9 numbers",
        {"warm_start": (np.ones(9), 0.0)},
        FIT,
        ValueError,
        r"warm_start has coefficients of shape \(9,\).*X has 4",
    ),
    Bad(
        "warm_start of another width",
        {"warm_start": FITTED},
        FIT,
        ValueError,
        r"warm_start has coefficients of shape \(1, 6\).*X has 4",
    ),
    Bad(
        "warm_start of three problems",
        {"warm_start": (np.ones((3, D)), 0.0)},
        FIT,
        ValueError,
        r"warm_start has coefficients of shape \(3, 4\).*this fit has one",
        loads=True,
    ),
    Bad(
        "warm_start of two intercepts",
        {"warm_start": (np.ones(D), [0.0, 1.0])},
        FIT,
        ValueError,
        r"warm_start has .*intercepts of shape \(2,\)",
        loads=True,
    ),
    Bad(
        "warm_start NaN",
        {"warm_start": (np.full(D, NAN), 0.0)},
        FIT,
        ValueError,
        r"warm_start has coefficients that are not finite \(nan\)",
    ),
    Bad(
        "warm_start inf intercept",
        {"warm_start": (np.ones(D), INF)},
        FIT,
        ValueError,
        r"warm_start has intercepts that are not finite \(inf\)",
    ),
    Bad(
        "warm_start text",
        {"warm_start": ("abc", 0.0)},
        FIT,
        TypeError,
        "warm_start has coefficients 'abc', which are not numbers",
    ),
    Bad(
        "warm_start None",
        {"warm_start": (None, None)},
        FIT,
        TypeError,
        "warm_start has coefficients None, which are not numbers",
    ),
    Bad(
        "warm_start ragged",
        {"warm_start": ([[1.0], [1.0, 2.0]], 0.0)},
        FIT,
        TypeError,
        "warm_start has coefficients .*not numbers",
    ),
    Bad(
        "warm_start 3-D",
        {"warm_start": (np.ones((1, 1, D)), 0.0)},
        FIT,
        ValueError,
        r"warm_start has coefficients of shape \(1, 1, 4\)",
    ),
    Bad(
        "warm_start empty",
        {"warm_start": ([], 0.0)},
        FIT,
        ValueError,
        r"warm_start has coefficients of shape \(0,\)",
    ),
    *value(
        "warm_start",
        ["yes", 1, None],
        ("estimator", "estimator lazy"),
        "warm_start={} must be True or False",
    ),
    *options("gd", "step", [NAN, INF, -1.0, 0, "fast", True, None, [1.0], 1j]),
    *options("gd", "epsilon", [NAN, INF, -1.0, "small", True, [1.0]]),
    *options("sdca", "stop", ["never", 3, None, ["gap"]]),
    *options("sdca", "partitioning", ["wildest", 3]),
    *options("sdca", "aggregation", ["sum", None]),
    *options("sdca", "threads", [0, -1, 1.5, True, "2", NAN]),
    *options("sdca", "bucket_size", [0, "8"]),
    *options("sdca", "shrinking", ["yes", 1, 0.5]),
    *options("sdca", "polish", ["no", 0]),
    Bad(
        "hinge and newton",
        {"loss": "hinge", "solver": "newton"},
        (*FIT, "path"),
        ValueError,
        "solver='newton' needs a smooth loss",
    ),
    Bad("C=inf and sdca", {"C": INF, "solver": "sdca"}, FIT, ValueError, "C=inf.*sdca"),
    Bad("C=inf and hinge", {"C": INF, "loss": "hinge"}, FIT, ValueError, "C=inf"),
    Bad(
        "class_weight of a regression",
        {"loss": "squared", "class_weight": "balanced"},
        FIT,
        ValueError,
        "class_weight has no meaning for loss='squared'",
    ),
    Bad(
        "resume and warm_start",
        {"resume": "missing", "warm_start": (np.ones(D), 0.0)},
        (*FIT, "path"),
        ValueError,
        "resume and warm_start",
    ),
    Bad(
        "path and warm_start of other features",
        {"warm_start": (np.ones(D + 1), 0.0)},
        ("path",),
        ValueError,
        "warm_start has coefficients of shape",
    ),
    Bad(
        "out_of_core of rows in memory",
        {"out_of_core": True},
        ("fit", "path", "client"),
        ValueError,
        "out_of_core.*X is in memory",
    ),
]

NAMES = [  # of scikit-learn
    *value(
        "n_jobs",
        [0, 1.5, "two", True, NAN, [1]],
        PARAMETERS,
        "n_jobs={} must be a positive integer",
    ),
    *value(
        "verbose",
        [-1, "yes", 1.5, None, [1]],
        PARAMETERS,
        "verbose={} must be an integer not below 0",
    ),
    *value("stop", ["never", 3, None, ["gap"]], PARAMETERS, "stop={} is not one of"),
    *value("penalty", [3, ["l2"], "none"], ("estimator",), "penalty={}"),
    *value("l1_ratio", [-0.5, "a", NAN, True, [0.0]], PENALISED, "l1_ratio={}"),
    *value("standardize", ["yes", 1, None], PENALISED, "standardize={} must be True or False"),
    *value("positive", ["yes", 1, None], PENALISED, "positive={} must be True or False"),
    *value("penalty_factor", [2.0, "a", True], PENALISED, "penalty_factor={} must be an array"),
    *value("lower_bounds", ["a", True], PENALISED, "lower_bounds={} must be a number, an"),
    *value("upper_bounds", [NAN, -INF], PENALISED, "upper_bounds={} must be a number, or inf"),
    *value("P2", ["a", 1.0, np.ones(3)], PENALISED, "P2 has the shape"),
    *value(
        "dual", ["yes", 3, None, [True]], ("estimator",), "dual={} must be True, False or 'auto'"
    ),
    *value(
        "intercept_scaling",
        [0.0, "a", NAN, None],
        ("estimator",),
        "intercept_scaling={} must be a n",
    ),
    *value(
        "multi_class",
        ["crammer_singer", 3, None, []],
        ("estimator",),
        "multi_class={} is not implemented",
    ),
    *value(
        "alpha",
        [-1, NAN, INF, "a", True, 1j],
        ("ridge",),
        "alpha={} must be a (finite )?number not below 0",
    ),
    *value(
        "alpha",
        [[1.0, 2.0], [], np.ones(3)],
        ("ridge",),
        "alpha has [023] values but y has 1 target",
    ),
    *value(
        "alpha", [{}, [None], ["a"]], ("ridge",), "alpha=.* must be a (finite )?number not below 0"
    ),
    *value("copy_X", ["yes", None, 1], ("ridge",), "copy_X={} must be True or False"),
    Bad(
        "alpha and C",
        {"alpha": 1.0, "C": 2.0},
        ("ridge",),
        ValueError,
        "alpha=1.0 and C=2.0 both set the penalty",
    ),
]


# ---- rows, labels and weights
def spoil(name, what):
    """A function that replaces X, y or the weights by `what(X, y, w)`."""

    def spoilt(X, y, w):
        return tuple(
            what(X, y, w) if part == name else given
            for part, given in (("X", X), ("y", y), ("w", w))
        )

    return spoilt


def put(name, at, entry, dtype=None):
    """A function that puts one value into X, y or the weights."""

    def what(X, y, w):
        values = {"X": X, "y": y, "w": np.ones(N) if w is None else w}[name]
        values = values.astype(dtype) if dtype else values.copy()
        values[at] = entry
        return values

    return spoil(name, what)


def masked(values, at):
    mask = np.zeros(values.shape, bool)
    mask[at] = True
    return np.ma.masked_array(values, mask)


def damaged(X, index):
    S = sp.csr_matrix(X)
    S.indices[S.indptr[217] + 1] = index
    return S


def frame(X, **columns):
    return pd.DataFrame(X, columns=list("abcd")).assign(**columns)


DATA = [
    *(
        Bad(
            f"X {entry}",
            put("X", (217, 2), entry),
            (*ROWS, "frame"),
            ValueError,
            "X contains (NaN|infinity).*{row 217}, column (2|'c')",
        )
        for entry in (NAN, INF, -INF)
    ),
    *(
        Bad(
            f"X {entry}, float32",
            put("X", (217, 2), entry, np.float32),
            ROWS,
            ValueError,
            "X contains (NaN|infinity).*{row 217}, column 2",
        )
        for entry in (NAN, -INF)
    ),
    Bad(
        "X whose squares overflow",
        put("X", (217, 2), 1e200),
        ROWS,
        ValueError,
        "X has values whose squares overflow",
    ),
    Bad(
        "X complex",
        spoil("X", lambda X, y, w: X + 1j),
        ROWS,
        ValueError,
        "Complex data not supported: .*X has dtype complex128",
    ),
    Bad(
        "X dates",
        spoil("X", lambda X, y, w: X.astype("datetime64[s]")),
        ROWS,
        ValueError,
        "X has dtype datetime64",
    ),
    Bad(
        "X durations",
        spoil("X", lambda X, y, w: X.astype("timedelta64[s]")),
        ROWS,
        ValueError,
        "X has dtype timedelta64",
    ),
    Bad(
        "X masked",
        spoil("X", lambda X, y, w: masked(X, (217, 2))),
        ROWS,
        ValueError,
        "X has 1 masked values, the first at {row 217}",
    ),
    Bad(
        "X text",
        spoil("X", lambda X, y, w: np.full(X.shape, "a")),
        ROWS,
        ValueError,
        "X has values that are not numbers .*'a'",
    ),
    Bad(
        "X objects",
        put("X", (217, 2), "many", object),
        ROWS,
        ValueError,
        "X has values that are not numbers .*'many'",
    ),
    Bad(
        "X dict objects",
        put("X", (217, 2), {}, object),
        ROWS,
        TypeError,
        "X has values that are not numbers .*dict",
    ),
    Bad(
        "X None",
        put("X", (217, 2), None, object),
        ROWS,
        ValueError,
        "X contains NaN: {row 217}, column 2",
    ),
    Bad(
        "X bytes",
        spoil("X", lambda X, y, w: np.full(X.shape, b"a")),
        ROWS,
        ValueError,
        "X has values that are not numbers",
    ),
    Bad(
        "X structured",
        spoil("X", lambda X, y, w: np.zeros(N, [("a", float), ("b", float)])),
        ROWS,
        ValueError,
        "X has 1 dimension",
    ),
    Bad(
        "X of one dimension",
        spoil("X", lambda X, y, w: X[:, 0]),
        ROWS,
        ValueError,
        "X has 1 dimension",
    ),
    Bad(
        "X of three dimensions",
        spoil("X", lambda X, y, w: X[:, :, None]),
        ROWS,
        ValueError,
        "X has 3 dimension",
    ),
    *(
        Bad(
            f"X of shape {shape}",
            spoil("X", lambda X, y, w, shape=shape: np.ones(shape)),
            ROWS,
            ValueError,
            f"X has {len(shape)} dimension",
        )
        for shape in ((), (D,), (1, N, D), (N, 2, 2), (N, 1, 1, 1))
    ),
    Bad(
        "X a series",
        spoil("X", lambda X, y, w: pd.Series(X[:, 0])),
        ("fit", "estimator", "cv", "path", "client", "score"),
        ValueError,
        "X has 1 dimension",
    ),
    Bad(
        "X without rows",
        lambda X, y, w: (X[:0], y[:0], w),
        ROWS,
        ValueError,
        "X has no rows|n_samples=0",
    ),
    Bad(
        "X without columns",
        spoil("X", lambda X, y, w: X[:, :0]),
        ("fit", "estimator", "cv", "path", "client", "score"),
        ValueError,
        "0 feature.*X has no columns|X has 0 features",
    ),
    Bad(
        "X without columns or intercept",
        {"fit_intercept": False},
        ("no columns",),
        ValueError,
        "X has no columns, and fit_intercept=False",
        loads=True,
    ),
    Bad(
        "X without columns, hinge",
        {"loss": "hinge"},
        ("no columns",),
        ValueError,
        "X has no columns, and loss='hinge' wants one",
        loads=True,
    ),
    *(
        Bad(
            f"X is {given!r:.10}",
            spoil("X", lambda X, y, w, given=given: given),
            MEMORY,
            (TypeError, ValueError),
            f"X {says}",
        )
        for given, says in (
            (None, "is None"),
            (3, "is 3"),
            ("train.svm", "is 'train.svm'"),
            ({}, r"is \{\}"),
            (..., "is Ellipsis"),
        )
    ),
    Bad(
        "X generator",
        spoil("X", lambda X, y, w: (row for row in X)),
        MEMORY,
        (TypeError, ValueError),
        "X is <generator",
    ),
    Bad("X set", spoil("X", lambda X, y, w: {1.0, 2.0}), MEMORY, (TypeError, ValueError), "X is {"),
    Bad(
        "X ragged",
        spoil("X", lambda X, y, w: [[1.0, 2.0], [1.0]] * (N // 2)),
        MEMORY,
        ValueError,
        "X .*(ragged|different lengths|not of equal)",
    ),
    Bad(
        "X list of text",
        spoil("X", lambda X, y, w: [["a", "b", "c", "d"]] * N),
        MEMORY,
        ValueError,
        "X has values that are not numbers",
    ),
    *(
        Bad(
            f"X index {index}",
            spoil("X", lambda X, y, w, index=index: damaged(X, index)),
            (*ROWS,),
            ValueError,
            f"{{row 217}}.*column index {index:,}",
        )
        for index in (100_000, D, -1)
    ),
    Bad(
        "X text column of numbers",
        spoil("X", lambda X, y, w: frame(X, b="1.5")),
        ("fit", "estimator", "cv", "path", "frame"),
        ValueError,
        "column 'b' is text that reads as numbers, such as '1.5'",
    ),
    Bad(
        "X date column",
        spoil("X", lambda X, y, w: frame(X, c=pd.Timestamp("2026-01-01"))),
        ("fit", "estimator", "cv", "path", "frame"),
        ValueError,
        "column 'c' has dtype datetime64",
    ),
    Bad(
        "X complex column",
        spoil("X", lambda X, y, w: frame(X, c=1j)),
        ("fit", "estimator", "cv", "path", "frame"),
        ValueError,
        "column 'c' has dtype complex128",
    ),
    Bad(
        "y column that is not there",
        lambda X, y, w: (frame(X), "label", w),
        ("fit", "estimator", "cv", "path", "frame"),
        ValueError,
        "no column 'label'; it has 'a'",
    ),
    Bad(
        "weight column that is not there",
        lambda X, y, w: (frame(X), y, "mass"),
        ("fit", "estimator", "cv", "path", "frame"),
        ValueError,
        "no column 'mass'; it has 'a'",
    ),
    Bad(
        "y name beside an array",
        spoil("y", lambda X, y, w: "label"),
        ROWS,
        (TypeError, ValueError),
        "y='label' (would name|names) a column",
    ),
    Bad(
        "weight name beside an array",
        spoil("w", lambda X, y, w: "mass"),
        ROWS,
        (TypeError, ValueError),
        "sample_weight='mass' (would name|names) a column",
    ),
    Bad("y None", spoil("y", lambda X, y, w: None), (*ROWS, "frame"), ValueError, "requires y"),
    Bad(
        "y short",
        spoil("y", lambda X, y, w: y[:-1]),
        ROWS,
        ValueError,
        "inconsistent numbers of samples: .*300.*299|X has 300.*y.*299",
    ),
    Bad(
        "y long",
        spoil("y", lambda X, y, w: np.append(y, y)),
        ROWS,
        ValueError,
        "inconsistent numbers of samples: .*300.*600|X has 300.*y.*600",
    ),
    Bad(
        "y empty",
        spoil("y", lambda X, y, w: y[:0]),
        ROWS,
        ValueError,
        "inconsistent numbers of samples: .*300.* 0",
    ),
    Bad(
        "y of two columns",
        spoil("y", lambda X, y, w: np.stack([y, y], 1)),
        ROWS,
        ValueError,
        "y should be a 1d array",
    ),
    Bad(
        "y scalar",
        spoil("y", lambda X, y, w: 1.0),
        MEMORY,
        (TypeError, ValueError),
        "y .*1d array|y is 1.0",
    ),
    Bad(
        "y dict",
        spoil("y", lambda X, y, w: {"a": 1}),
        MEMORY,
        (TypeError, ValueError),
        "y (should be|is a)",
    ),
    Bad(
        "y set",
        spoil("y", lambda X, y, w: {1, 2}),
        MEMORY,
        (TypeError, ValueError),
        "y (should be|is a)",
    ),
    Bad(
        "y generator",
        spoil("y", lambda X, y, w: (label for label in y)),
        MEMORY,
        (TypeError, ValueError),
        "y (should be|is a)",
    ),
    *(
        Bad(
            f"y {entry}, {dtype}",
            put("y", 217, entry, dtype),
            (*ROWS, *(("frame",) if dtype is None else ())),
            ValueError,
            "y contains (NaN|infinity|NaN or None).*{row 217}",
        )
        for entry, dtype in (
            (NAN, None),
            (INF, None),
            (None, object),
            (NAN, object),
            ("NaT", "datetime64[s]"),
        )
    ),
    Bad(
        "y of one class",
        spoil("y", lambda X, y, w: np.ones(N)),
        FITTING,
        ValueError,
        "one class, 1.0",
    ),
    Bad(
        "y continuous",
        spoil("y", lambda X, y, w: X[:, 0].copy()),
        (*ROWS, "frame"),
        ValueError,
        "Unknown label type: continuous.*y has",
    ),
    Bad("y complex", spoil("y", lambda X, y, w: y + 1j), ROWS, ValueError, "[cC]omplex.* y "),
    Bad(
        "y of mixed labels",
        spoil("y", lambda X, y, w: np.array([1, "a"] * (N // 2), dtype=object)),
        ROWS,
        ValueError,
        "labels of different kinds",
    ),
    Bad(
        "y masked",
        spoil("y", lambda X, y, w: masked(y, 217)),
        ROWS,
        ValueError,
        "y has 1 masked values, the first at {row 217}",
    ),
    *(
        Bad(f"weight {entry}", put("w", 217, entry), (*ROWS, "frame"), ValueError, says)
        for entry, says in (
            (NAN, "sample_weight contains NaN"),
            (INF, "sample_weight contains inf"),
            (-1.0, "{row 217}.*sample_weight is negative"),
        )
    ),
    Bad(
        "weights zero",
        spoil("w", lambda X, y, w: np.zeros(N)),
        (*ROWS, "frame"),
        ValueError,
        "[wW]eights (are zero|must contain)",
    ),
    Bad(
        "weights short",
        spoil("w", lambda X, y, w: np.ones(N - 1)),
        ROWS,
        ValueError,
        "sample_weight.*(299|300)",
    ),
    Bad(
        "weights of two columns",
        spoil("w", lambda X, y, w: np.ones((N, 2))),
        ROWS,
        ValueError,
        "[sS]ample.weight.*(1d|1D|2 dim)",
    ),
    Bad(
        "weights text",
        spoil("w", lambda X, y, w: np.full(N, "a")),
        ROWS,
        ValueError,
        "sample_weight.* has values that are not numbers",
    ),
    Bad(
        "weights objects",
        put("w", 217, {}, object),
        ROWS,
        (TypeError, ValueError),
        "sample_weight.* has values that are not numbers",
    ),
    Bad(
        "weights None", put("w", 217, None, object), ROWS, ValueError, "sample_weight contains NaN"
    ),
    Bad(
        "weights complex",
        spoil("w", lambda X, y, w: np.ones(N, complex)),
        ROWS,
        ValueError,
        "Complex data not supported: .*sample_weight",
    ),
    Bad(
        "weights dates",
        spoil("w", lambda X, y, w: np.ones(N, "timedelta64[s]")),
        ROWS,
        ValueError,
        "sample_weight has dtype timedelta64",
    ),
    Bad(
        "weights masked",
        spoil("w", lambda X, y, w: masked(np.ones(N), 217)),
        ROWS,
        ValueError,
        "sample_weight has 1 masked values, the first at {row 217}",
    ),
    Bad(
        "weights dict",
        spoil("w", lambda X, y, w: {0: 1.0}),
        MEMORY,
        (TypeError, ValueError),
        "sample_weight={0: 1.0} has values that are not numbers",
    ),
    Bad(
        "weights set",
        spoil("w", lambda X, y, w: {1.0}),
        MEMORY,
        (TypeError, ValueError),
        "sample_weight={1.0} has values that are not numbers",
    ),
]

LAZILY = [  # beside dask arrays
    *(
        Bad(
            f"lazy {name} {given!r:.10}",
            spoil(part, lambda X, y, w, given=given: given),
            ("array", "cluster", "score lazy"),
            ValueError,
            f"{name}=.* should be a 1d array",
        )
        for name, part, given in (
            *(("y", "y", given) for given in (3.0, {"a": 1}, {1.0, 2.0})),
            *(("sample_weight", "w", given) for given in (True, {"a": 1}, {1.0, 2.0})),
        )
    ),
    *(
        Bad(
            f"lazy sample_weight {given}",
            spoil("w", lambda X, y, w, given=given: given),
            ("fit", "array", "frame", "cluster", "score", "score lazy", "cv", "path"),
            ValueError,
            f"sample_weight={given}.* must be a finite number not below 0",
        )
        for given in (-1.0, NAN, INF)
    ),
    Bad(
        "X one delayed",
        spoil("X", lambda X, y, w: dask.delayed(X)),
        ("fit", "array", "score"),
        TypeError,
        "X is one delayed object",
    ),
    Bad(
        "y one delayed",
        spoil("y", lambda X, y, w: dask.delayed(y)),
        ("fit", "array", "score"),
        TypeError,
        "y is one delayed object",
    ),
    Bad(
        "X a bag",
        spoil("X", lambda X, y, w: dask.bag.from_sequence([1, 2])),
        ("fit", "array", "score"),
        TypeError,
        "X is a dask Bag",
    ),
    Bad(
        "y a bag",
        spoil("y", lambda X, y, w: dask.bag.from_sequence([1, 2])),
        ("fit", "array", "score"),
        TypeError,
        "y is a dask Bag",
    ),
]

TARGETS = [
    *(
        Bad(
            f"target {entry}",
            put("y", 217, entry),
            (*ROWS, "frame"),
            ValueError,
            "y contains (NaN|infinity).*{row 217}",
        )
        for entry in (NAN, INF)
    ),
    Bad(
        "target dates",
        spoil("y", lambda X, y, w: np.arange(N).astype("datetime64[s]")),
        ROWS,
        ValueError,
        "y has dtype datetime64",
    ),
    Bad("target complex", spoil("y", lambda X, y, w: y + 1j), ROWS, ValueError, "[cC]omplex.* y"),
    Bad(
        "target text",
        spoil("y", lambda X, y, w: np.full(N, "a")),
        ROWS,
        ValueError,
        "y has values that are not numbers .*'a'",
    ),
    Bad("target None", put("y", 217, None, object), ROWS, ValueError, "y contains NaN.*{row 217}"),
    Bad(
        "target masked",
        spoil("y", lambda X, y, w: masked(y, 217)),
        ROWS,
        ValueError,
        "y has 1 masked values, the first at {row 217}",
    ),
]

PREDICTIONS = [
    *(
        Bad(
            f"predict {entry}",
            put("X", (217, 2), entry),
            PREDICT,
            ValueError,
            "X contains (NaN|infinity)|Input X contains",
        )
        for entry in (NAN, INF, -INF)
    ),
    Bad(
        "predict other width",
        spoil("X", lambda X, y, w: X[:, :3]),
        PREDICT,
        ValueError,
        "X has 3 features, but LogisticRegression is expecting 4",
    ),
    Bad(
        "predict complex",
        spoil("X", lambda X, y, w: X + 1j),
        PREDICT,
        ValueError,
        "Complex data not supported",
    ),
    Bad(
        "predict dates",
        spoil("X", lambda X, y, w: X.astype("datetime64[s]")),
        PREDICT,
        ValueError,
        "X has dtype datetime64",
    ),
    Bad(
        "predict masked",
        spoil("X", lambda X, y, w: masked(X, (217, 2))),
        PREDICT,
        ValueError,
        "X has 1 masked values, the first at {row 217}",
    ),
    Bad(
        "predict text",
        spoil("X", lambda X, y, w: np.full(X.shape, "a")),
        PREDICT,
        ValueError,
        "could not convert string to float: .*'a'",
    ),
    Bad(
        "predict objects",
        put("X", (217, 2), "many", object),
        PREDICT,
        ValueError,
        "could not convert string to float: .*'many'",
    ),
    Bad(
        "predict one dimension",
        spoil("X", lambda X, y, w: X[:, 0]),
        PREDICT,
        ValueError,
        "1 dimension|1D array",
    ),
    Bad(
        "predict three dimensions",
        spoil("X", lambda X, y, w: X[:, :, None]),
        PREDICT,
        ValueError,
        "3 dimension|dim 3",
    ),
    Bad(
        "predict series",
        spoil("X", lambda X, y, w: pd.Series(X[0])),
        ("predict", "predict named"),
        ValueError,
        "X is a Series, of 1 dimension",
    ),
    Bad(
        "predict lazy series",
        spoil("X", lambda X, y, w: dask.dataframe.from_pandas(pd.Series(X[0]), npartitions=1)),
        ("predict", "predict named"),
        ValueError,
        "X has 1 dimension",
    ),
    Bad("predict no rows", spoil("X", lambda X, y, w: X[:0]), ("predict",), ValueError, "0 sample"),
    *(
        Bad(
            f"predict of {given!r:.20}",
            spoil("X", lambda X, y, w, given=given: given),
            ("predict",),
            (TypeError, ValueError),
            says,
        )
        for given, says in (
            (None, "X is None"),
            (3, "X is 3"),
            ("test.svm", "X is 'test.svm'"),
            ({}, r"X is \{\}"),
        )
    ),
    *(
        Bad(
            f"predict index {index}",
            spoil("X", lambda X, y, w, index=index: damaged(X, index)),
            PREDICT,
            ValueError,
            f"{{row 217}}.*column index {index:,}",
        )
        for index in (100_000, D, -1)
    ),
    Bad(
        "predict other columns",
        spoil("X", lambda X, y, w: frame(X).rename(columns={"a": "z"})),
        ("predict named", "predict frame"),
        ValueError,
        "feature names.*\n.*- z",
    ),
    Bad(
        "predict text column",
        spoil("X", lambda X, y, w: frame(X, b="x")),
        ("predict named", "predict frame"),
        ValueError,
        "could not convert string to float: .*'x'",
    ),
    Bad(
        "predict date column",
        spoil("X", lambda X, y, w: frame(X, b=pd.Timestamp("2026-01-01"))),
        ("predict named", "predict frame"),
        ValueError,
        "column 'b' has dtype datetime64",
    ),
    *(
        Bad(f"score {name}", given, ("score",), ValueError, says)
        for name, given, says in (
            ("y short", spoil("y", lambda X, y, w: y[:-1]), "inconsistent numbers of samples"),
            ("y NaN", put("y", 217, NAN), "contains NaN"),
            ("X NaN", put("X", (217, 2), NAN), "X contains NaN"),
            ("X width", spoil("X", lambda X, y, w: X[:, :3]), "X has 3 features"),
            (
                "weights short",
                spoil("w", lambda X, y, w: np.ones(N - 1)),
                "inconsistent numbers of samples|sample_weight",
            ),
        )
    ),
]

SAVING = [
    Bad(
        "save unfitted",
        {"model": UNFITTED, "path": "model.json"},
        ("save",),
        ValueError,
        "not fitted",
    ),
    *value("model", [3, None, {}], ("save",), "cannot save a"),
    Bad("load missing", {"path": "missing.json"}, ("load",), FileNotFoundError, "missing.json"),
    *value(
        "path", [3, None, 2.5], ("save", "load"), "path={} must be the path of a file", TypeError
    ),
]
