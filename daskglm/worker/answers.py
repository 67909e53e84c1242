"""What answers each type of request that is answered from blocks and their caches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from daskglm.core.batch_requests import EvaluateMany, HeldOutLosses, ScoreHeldOut, WeighGroups
from daskglm.core.column_requests import (
    ColumnDescent,
    ColumnGram,
    ColumnMoments,
    ColumnSigns,
    ColumnSweeps,
    ColumnTargets,
)
from daskglm.core.inference_requests import InferenceSums, LeverageMeat, ScoresAlong
from daskglm.core.level_blocks import LevelPairs
from daskglm.core.requests import (
    DualLine,
    DualSave,
    DualShape,
    DualSpan,
    DualValue,
    Evaluate,
    EvaluateAlong,
    HessianVector,
    Problem,
    RateSums,
    ResidualSums,
    Spread,
    Totals,
)
from daskglm.core.sample_requests import DrawRows
from daskglm.losses.ordinal import is_ordinal
from daskglm.losses.table import loss_of
from daskglm.worker import batched, columns, held_out, inference, one_margin, ordinal, outputs
from daskglm.worker.asked import Asked
from daskglm.worker.column_descent import column_descent
from daskglm.worker.column_gram import column_gram
from daskglm.worker.column_sweeps import column_sweeps
from daskglm.worker.rates import rate_sums
from daskglm.worker.residuals import residual_sums
from daskglm.worker.subsampling import draw_rows


def _shape_of(problem: Problem) -> ModuleType:
    """Return the module that answers for a problem's shape of margins."""
    if not problem.classes:
        return one_margin
    return ordinal if is_ordinal(loss_of(problem.loss)) else outputs


def _by_shape(name: str) -> Callable[[Asked[Any]], Totals]:
    """Return what has the function of this name answer, of the module for a problem's shape."""

    def answer(asked: Asked[Any]) -> Totals:
        totals: Totals = getattr(_shape_of(asked.problem), name)(asked)
        return totals

    return answer


def _at_a_point(work: Callable[[Asked[Any]], Totals]) -> Callable[[Asked[Any]], Totals]:
    """Return what answers once the margins of the point are there, if the request has one."""

    def answer(asked: Asked[Any]) -> Totals:
        at = asked.request.at
        read = 0 if at is None else one_margin.update_margins(asked, [at])
        totals = work(asked)
        return {**totals, "rows": totals["rows"] + read}

    return answer


# By type of request. `Shard` answers dual ones, and those about trust regions, itself.
ANSWERS: dict[type, Callable[[Asked[Any]], Totals]] = {
    ColumnMoments: columns.column_moments,
    ColumnSigns: columns.column_signs,
    ColumnDescent: column_descent,
    ColumnSweeps: column_sweeps,
    ColumnTargets: columns.column_targets,
    Spread: columns.spread,
    DrawRows: draw_rows,
    LevelPairs: one_margin.level_pairs,
    ColumnGram: _at_a_point(column_gram),
    RateSums: _at_a_point(rate_sums),
    ResidualSums: _at_a_point(residual_sums),
    Evaluate: _by_shape("evaluate"),
    HessianVector: _by_shape("hessian_vector"),
    EvaluateAlong: _by_shape("along"),
    EvaluateMany: batched.evaluate_many,
    WeighGroups: batched.weigh_groups,
    ScoreHeldOut: held_out.score_held_out,
    HeldOutLosses: held_out.held_out_losses,
    InferenceSums: inference.inference_sums,
    ScoresAlong: inference.scores_along,
    LeverageMeat: inference.meat_by_leverage,
}


def _has_point(shard: Any, caches: Sequence[Any], request: RateSums | ResidualSums) -> bool:
    return request.at is None or all(request.at[0] in cache.margins for cache in caches)


def _has_points(shard: Any, caches: Sequence[Any], request: EvaluateAlong) -> bool:
    return all(token in cache.known_margins for cache in caches for token, _ in request.points)


def _has_state(
    shard: Any, caches: Sequence[Any], request: DualLine | DualSpan | DualSave | DualValue
) -> bool:
    known = request.state.number, request.state.before
    numbers = [shard.ascent.number, *(cache.dual and cache.dual.number for cache in caches)]
    return all(number is not None and number in known for number in numbers)


# Whether a shard and the caches of its blocks answer a request without its rows; no type that is
# missing here is answered so.
FROM_CACHE: dict[type, Callable[[Any, Sequence[Any], Any], bool]] = {
    # a GPU's partitions depend on the columns that rows share
    DualShape: lambda shard, caches, request: shard.device == "cpu",
    RateSums: _has_point,
    ResidualSums: _has_point,
    EvaluateAlong: _has_points,
    DualLine: _has_state,
    DualSpan: _has_state,
    DualSave: _has_state,
    DualValue: _has_state,
}
