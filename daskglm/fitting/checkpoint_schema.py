"""What a state in a checkpoint may be. Checkpoints may come from anybody, or be damaged: all of it
is checked.

Each function raises ValueError, which says what is wrong without the name of the checkpoint.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from daskglm.data import npz
from daskglm.fitting import schema
from daskglm.solvers import get_solver, solver_names

# Name of the solver of many problems together.
BATCH = "batched_newton"
# Names of folders of dual variables.
ROWS = re.compile(r"rows-[0-9a-f]{32}")
KEYS = ("solver", "problem", "iteration", "rows", "settings", "counts", "sums", "state")
# Count of the numbers that tell data from others: see `checkpoint.Identity`.
SUMS = 3
# Most pairs of L-BFGS and TRON, and values of gradient descent, in a checkpoint.
MOST_PAIRS, MOST_VALUES = 100, 100

Check = Callable[[Any, str], Any]


def read(
    content: bytes, format_: str, version: int
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read the description and the arrays of a file, and check their types."""
    arrays = npz.read(content)
    for name in ("about", "w", "finished"):
        if name not in arrays:
            raise ValueError(f"it has no {name!r}")
    about = _about(arrays.pop("about"), format_, version)
    settings = about["settings"]
    size = about["counts"]["features"] + settings.get("constants", settings["fit_intercept"])
    size *= settings.get("sets", 1)
    (rows_of(size) if about["solver"] == BATCH else vector(size))(arrays["w"], "w")
    finished = arrays["finished"]
    if finished.shape != (about["problem"], size) or not np.isfinite(finished).all():
        raise ValueError(f"finished has shape {finished.shape}, or numbers that are not finite")
    _check_state(
        about,
        {name: value for name, value in arrays.items() if name not in ("w", "finished")},
        size,
    )
    return about, arrays


def as_text(about: Mapping[str, Any]) -> np.ndarray:
    """Return a description as `description` reads it."""
    return np.frombuffer(json.dumps(about).encode(), np.uint8)


def description(text: np.ndarray, format_: str, version: int) -> dict[str, Any]:
    """Return the description in a file, which must be of this format and version."""
    if text.dtype != np.uint8 or text.ndim != 1:
        raise ValueError("its description is no text")
    about = json.loads(text.tobytes().decode())
    if not isinstance(about, dict):
        raise ValueError("its description is no dictionary")
    if (
        about.get("format") != format_
        or type(about.get("version")) is not int
        or about["version"] != version
    ):
        raise ValueError(f"it has format {about.get('format')!r}, version {about.get('version')!r}")
    return about


def check_identity(about: Mapping[str, Any]) -> None:
    """Check what a description has of settings and data, see `checkpoint.Identity`."""
    for name in ("settings", "counts"):
        if not isinstance(about.get(name), dict):
            raise ValueError(f"{name} {about.get(name)!r} is no dictionary")
    schema.integer(about["counts"].get("features"), "the number of features", 1)
    schema.flag(about["settings"].get("fit_intercept"), "fit_intercept")
    sums = about.get("sums")
    if not isinstance(sums, list) or len(sums) != SUMS:
        raise ValueError(f"sums {sums!r} are not {SUMS} numbers")
    for each in sums:
        schema.number(each, "a sum over the rows")


def _about(text: np.ndarray, format_: str, version: int) -> dict[str, Any]:
    about = description(text, format_, version)
    if missing := [key for key in KEYS if key not in about]:
        raise ValueError(f"it has no {missing[0]!r}")
    known = [*solver_names(), BATCH]
    if about["solver"] not in known:
        names = ", ".join(map(repr, known))
        raise ValueError(f"solver {about['solver']!r} is not one of {names}")
    for name in ("problem", "iteration"):
        schema.integer(about[name], name)
    if about["rows"] != "" and not (
        isinstance(about["rows"], str) and ROWS.fullmatch(about["rows"])
    ):
        raise ValueError(f"rows {about['rows']!r} is not the name of a folder in it")
    numbers(about.get("left", []), "left")
    check_identity(about)
    if not isinstance(about["state"], dict):
        raise ValueError(f"state {about['state']!r} is no dictionary")
    schema.integer(about["settings"].get("constants", 1), "the number of thresholds", 1)
    schema.integer(about["settings"].get("sets", 1), "the number of sets of coefficients", 1)
    return about


def _check_state(about: Mapping[str, Any], arrays: Mapping[str, np.ndarray], size: int) -> None:
    state = about["state"]
    if both := sorted(set(state) & set(arrays)):
        raise ValueError(f"{both[0]!r} is in it twice")
    known = _checks(about["solver"], size)
    _check(known, {**state, **arrays}, f"the state of {about['solver']!r}")
    if about["solver"] == "sdca":
        ascends = bool(state.get("state"))
        if ascends != bool(about["rows"]):
            raise ValueError(
                "dual variables without a folder of them"
                if ascends
                else "a folder without dual variables"
            )
    elif about["rows"]:
        raise ValueError(f"{about['solver']!r} has no folder of dual variables")


def _checks(solver: str, size: int) -> Mapping[str, Check]:
    """Checks of what a solver keeps, of this package or from outside."""
    if solver in STATES:
        return STATES[solver](size)
    state = get_solver(solver).state
    return {} if state is None else state(size)


def _check(known: Mapping[str, Check], state: Any, what: str) -> None:
    """Check every value of a state; all of them may be absent, none may be unknown."""
    if not isinstance(state, dict):
        raise ValueError(f"{what} is {state!r}, no dictionary")
    if unknown := sorted(set(state) - set(known)):
        raise ValueError(f"{what} has {unknown[0]!r}, which that solver does not know")
    for name, value in state.items():
        known[name](value, f"{name!r} of {what}")


# ---- what each solver keeps
def vector(size: int, least: float = -math.inf) -> Check:
    """Finite float64 numbers, one of each coefficient."""

    def check(value: Any, what: str) -> None:
        if not isinstance(value, np.ndarray) or value.dtype != np.float64 or value.shape != (size,):
            shape = getattr(value, "shape", None)
            raise ValueError(f"{what} has shape {shape}, where {size} numbers in float64 belong")
        if not np.isfinite(value).all() or not (value >= least).all():
            raise ValueError(f"{what} has numbers that are not finite, or below {least:g}")

    return check


def rows_of(size: int) -> Check:
    """Make a check of one or more vectors of finite float64 numbers, one for each coefficient."""

    def check(value: Any, what: str) -> None:
        if np.ndim(value) != 2 or not len(value):
            raise ValueError(f"{what} has shape {np.shape(value)}, where rows of {size} belong")
        for row in value:
            vector(size)(row, f"a row of {what}")

    return check


def numbers(value: Any, what: str) -> None:
    """Check a list of numbers of problems, none of them twice."""
    if not isinstance(value, list):
        raise ValueError(f"{what} is no list of problems")
    for each in value:
        schema.integer(each, f"a problem of {what}")
    if len(set(value)) != len(value):
        raise ValueError(f"{what} has a problem twice")


def _pairs(size: int) -> Check:
    def check(value: Any, what: str) -> None:
        shape: tuple[int, ...] = np.shape(value)
        if (
            not isinstance(value, np.ndarray)
            or len(shape) != 2
            or shape[1] != size
            or shape[0] > MOST_PAIRS
            or not np.isfinite(value).all()
        ):
            raise ValueError(
                f"{what} has shape {shape}, where vectors of {size} finite numbers belong"
            )

    return check


def _positive(value: Any, what: str) -> None:
    schema.number(value, what, 0.0)


def _values(value: Any, what: str) -> None:
    if not isinstance(value, list) or len(value) > MOST_VALUES:
        raise ValueError(f"{what} is no list of values")
    for each in value:
        schema.number(each, what)


def _sigma(value: Any, what: str) -> None:
    if value is not None:
        _all(value, what, {"outer": _positive, "inner": _positive, "search": schema.flag})


def _all(value: Any, what: str, known: Mapping[str, Check]) -> None:
    """Check that a dictionary is empty or has all that is known."""
    _check(known, value, what)
    if value and (missing := sorted(set(known) - set(value))):
        raise ValueError(f"{what} lacks {missing[0]!r}")


def _tron(size: int) -> dict[str, Check]:
    numbers = dict.fromkeys(("radius", "missed", "mixture", "share", "spent", "due"), _positive)
    return {
        **numbers,
        "center": vector(size),
        "steps": _pairs(size),
        "changes": _pairs(size),
        "by_newton": schema.flag,
    }


def _limited_memory(size: int) -> dict[str, Check]:
    tiny = float(np.finfo(float).tiny)
    return {
        "steps": _pairs(size),
        "changes": _pairs(size),
        "diagonal": vector(size, tiny),
        "least": vector(size, 0.0),
        "taken": schema.integer,
        "renewal": schema.integer,
    }


def _gd(size: int) -> dict[str, Check]:
    known: dict[str, Check] = {"t": _positive, "odd": schema.flag, "before": _values}
    return {"state": lambda value, what: _all(value, what, known)}


def _sdca(size: int) -> dict[str, Check]:
    known: dict[str, Check] = {"rounds": schema.integer, "offset": schema.number, "sigma": _sigma}
    return {"state": lambda value, what: _all(value, what, known)}


STATES: dict[str, Callable[[int], dict[str, Check]]] = {
    "newton": lambda size: {},
    BATCH: lambda size: {"given_up": numbers},
    "tron": _tron,
    "lbfgs": _limited_memory,
    "gd": _gd,
    "sdca": _sdca,
    "owlqn": _limited_memory,
    "proximal_newton": lambda size: {},
}
"""By solver and number of coefficients: what `Point.resume` gives, which is what the solver takes
to go on.
"""
