"""Which solver suits the shape of a problem, and why."""

from __future__ import annotations

import math

from daskglm.objective import Objective

DENSE_FEATURES = 1000  # X'DX costs d / 2 products of a pass: beyond this CG's 30 or so passes are cheaper
EASY_DUAL = 3.0  # epochs to 1e-6 grow with 1 + curvature of a row over that of the penalty; to here about ten do
SPARSE_FEATURES = 1500  # the Gram of sparse rows is dense


def choose(objective: Objective) -> tuple[str, str]:
    """Name of the solver to use and the reason, in words."""
    facts, d = objective.engine.facts, objective.n_features
    if not math.isfinite(objective.loss.smoothness):
        return "sdca", f"{objective.loss.name}: the primal is not smooth, its dual is"
    per_row = facts.nonzeros / max(facts.n_rows, 1)
    if not facts.sparse and d <= DENSE_FEATURES:
        return "newton", f"dense with {d:,} features: forming the Hessian takes fewest passes"
    if facts.sparse and d <= SPARSE_FEATURES and per_row <= 100:
        return "newton", f"sparse with {d:,} features, {per_row:.0f} stored a row: the Hessian is cheap"
    hardness = _hardness(objective)
    if hardness <= EASY_DUAL:
        return "sdca", f"{d:,} features, curvature of {hardness:.2g} penalties a row: dual epochs converge fast"
    return "tron", f"{d:,} features: Hessian-vector products instead of a {d:,} x {d:,} Hessian"


def _hardness(objective: Objective) -> float:
    """Curvature that a mean row's loss gives along the row, over that of the penalty, times the workers."""
    if not objective.penalty:
        return math.inf
    facts, engine = objective.engine.facts, objective.engine
    mean = facts.squared_norms / max(facts.n_rows, 1)
    return objective.loss.smoothness * objective.scale * mean * engine.workers
