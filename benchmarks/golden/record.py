"""What is kept of a fit, and the differences between two records."""

from __future__ import annotations

import hashlib
import importlib.metadata
import math
import platform
import warnings
from typing import Any

import numpy as np

from benchmarks.golden.cases import Case, fits
from daskglm.system.warmed import target

# Relative differences of objectives that another order of sums may make; counts are exact.
SAME_OBJECTIVE = 1e-12
SAME_BOUND = 1e-9  # bounds are differences of objectives, of more rounding


def machine() -> dict[str, str]:
    """Return what bits of coefficients depend on: what machine code does, and other versions."""
    versions = {name: importlib.metadata.version(name) for name in ("numpy", "scipy")}
    return {**target(), "system": platform.system(), **versions}


def record(case: Case, seed: int) -> dict[str, Any]:
    """Fit a case; return its objective, gap, counts and digest, or what refused it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fitted = fits(case, seed)
        except (ValueError, TypeError, NotImplementedError) as error:
            return {"refused": f"{type(error).__name__}: {error}"}
    models = fitted if isinstance(fitted, list | tuple) else [fitted]
    return _merged([_of_one(model) for model in models])


def _of_one(model: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"digest": [_digest(model)]}
    report = getattr(model, "report_", None)
    if report is None:
        return found
    history = [step["relative_gap"] for step in report.history]
    places = (0, len(history) // 2, -1) if history else ()
    return found | {
        "objective": [_number(report.objective)],
        "gap": [_number(report.relative_gap)],
        "bounds": [_number(history[place]) for place in places],
        "passes": [_number(report.passes)],
        "rounds": [report.rounds],
        "converged": [report.converged],
    }


def _merged(records: list[dict[str, Any]]) -> dict[str, Any]:
    return {key: [value for each in records for value in each[key]] for key in records[0]}


def _number(value: float) -> float | str:
    """Return a number as JSON has it: infinite ones and nan by name."""
    return float(value) if math.isfinite(value) else repr(float(value))


def _digest(model: Any) -> str:
    """Return a checksum of coefficients, or of a path's."""
    names = ("coef_", "intercept_", "coefs_", "coefs", "intercepts", "alphas")
    arrays = [np.asarray(getattr(model, name)) for name in names if hasattr(model, name)]
    content = b"".join(np.ascontiguousarray(array, float).tobytes() for array in arrays)
    return hashlib.sha256(content).hexdigest()[:16]


def differences(old: dict[str, Any], new: dict[str, Any], *, bits: bool) -> list[str]:
    """Return what of a fit is another than it was; where not `bits`, rounding may differ."""
    found = []
    for key in sorted(old.keys() | new.keys()):
        was, now = old.get(key), new.get(key)
        tolerance = {"objective": SAME_OBJECTIVE, "gap": SAME_BOUND, "bounds": SAME_BOUND}.get(key)
        if key == "digest" and not bits:
            continue
        if tolerance is None or bits:
            same = was == now
        else:
            same = _near(was, now, tolerance)
        if not same:
            found.append(f"{key}: {was} -> {now}")
    return found


def _near(was: Any, now: Any, tolerance: float) -> bool:
    if was is None or now is None or len(was) != len(now):
        return False
    pairs = zip(was, now, strict=True)
    return all(
        a == b or (not isinstance(a, str) and not isinstance(b, str) and _close(a, b, tolerance))
        for a, b in pairs
    )


def _close(a: float, b: float, tolerance: float) -> bool:
    # a gap is relative to an objective of 1
    return abs(a - b) <= tolerance * max(abs(a), abs(b), 1e-6)
