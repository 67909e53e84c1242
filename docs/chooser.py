"""Write the numbers that the chooser computes with into its page while the pages are built."""

from __future__ import annotations

import json
import math
from typing import Any

import dask.config
import distributed  # noqa: F401  (its defaults are part of Dask's configuration then)
import numpy as np

from daskglm.core.sample_requests import ROW_BYTES, TRAVELLING_BYTES
from daskglm.data.loading import BESIDE
from daskglm.data.values import as_float
from daskglm.fitting.solvable import HESSIAN_BYTES
from daskglm.losses.base import Loss
from daskglm.losses.builtin import BUILTIN
from daskglm.solvers import costs, get_solver, solver_names


def constants() -> dict[str, Any]:
    """Return the numbers that the chooser computes with, as the package has them now."""
    dtypes = ("float64", "float32", "int64", "int32", "int16", "int8", "bool")
    return {
        "costs": {name: value for name, value in vars(costs).items() if name.isupper()},
        "beside": BESIDE,
        "travelling_bytes": TRAVELLING_BYTES,
        "row_bytes": ROW_BYTES,
        "pause": dask.config.get("distributed.worker.memory.pause"),
        "hessian_bytes": HESSIAN_BYTES,
        "itemsize": {name: as_float(np.zeros(1, name), "X").itemsize for name in dtypes},
        "losses": {
            loss.name: {
                "smooth": loss.differentiable,
                "quadratic": loss.is_quadratic,
                "jumps": loss.jumps,
                "has_ends": loss.link is not None and loss.link.is_bounded,
                "has_dual": loss.has_dual,
                "has_corners": loss.smoothed is not None and not loss.classifies,
                "rounds_corners": loss.smoothed is not None,
                # infinity is no number of JSON
                "curvature": curvature(loss) if math.isfinite(curvature(loss)) else None,
            }
            for loss in BUILTIN
        },
        "solvers": {
            name: {
                "dual": get_solver(name).solves_dual,
                "corners": get_solver(name).rounds_corners,
                "hessian": get_solver(name).forms_hessian,
            }
            for name in solver_names()
        },
    }


def curvature(loss: Loss) -> float:
    """Return the curvature of a row's loss to be expected, where targets are of the size of one."""
    shares = loss.family is not None and math.isfinite(loss.family.domain.high)
    return loss.expected_curvature(0.5 if shares else 1.0)


def fill(app: Any, page: str, source: list[str]) -> None:
    """Write the constants of the package into the page of the chooser."""
    if page == "choose":
        source[0] = source[0].replace("@CONSTANTS@", json.dumps(constants()))
