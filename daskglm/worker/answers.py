"""What answers each type of request that is answered from blocks and their caches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from daskglm.core.batch_requests import EvaluateMany, HeldOutLosses, ScoreHeldOut, WeighGroups
from daskglm.core.column_requests import ColumnGram, ColumnMoments, ColumnSigns
from daskglm.core.inference_requests import (
    ConstantSums,
    InferenceSums,
    JointInferenceSums,
    LeverageMeat,
    SaturatedLikelihood,
)
from daskglm.core.ordinal_requests import EvaluateOrdinal, OrdinalAlong, OrdinalHessianVector
from daskglm.core.output_requests import EvaluateOutputs, OutputsAlong, OutputsHessianVector
from daskglm.core.requests import (
    DualLine,
    DualSave,
    DualShape,
    DualValue,
    EvaluateAlong,
    RateSums,
    ResidualSums,
    Spread,
    Totals,
)
from daskglm.worker import batched, class_rows, columns, held_out, inference, ordinal, outputs
from daskglm.worker.asked import Asked
from daskglm.worker.column_gram import column_gram
from daskglm.worker.rates import rate_sums
from daskglm.worker.residuals import residual_sums

# By type of request. `Shard` answers those about one margin a row, and dual ones, itself.
ANSWERS: dict[type, Callable[[Asked[Any]], Totals]] = {
    ColumnMoments: columns.column_moments,
    ColumnSigns: columns.column_signs,
    Spread: columns.spread,
    EvaluateOutputs: outputs.evaluate,
    OutputsHessianVector: outputs.hessian_vector,
    OutputsAlong: outputs.along,
    EvaluateOrdinal: ordinal.evaluate,
    OrdinalHessianVector: ordinal.hessian_vector,
    OrdinalAlong: ordinal.along,
    EvaluateMany: batched.evaluate_many,
    WeighGroups: batched.weigh_groups,
    ScoreHeldOut: held_out.score_held_out,
    HeldOutLosses: held_out.held_out_losses,
    InferenceSums: inference.inference_sums,
    JointInferenceSums: inference.joint_inference_sums,
    LeverageMeat: inference.meat_by_leverage,
    ConstantSums: inference.constant_sums,
    SaturatedLikelihood: inference.saturated_likelihood,
}
# Of sums at a point, once its margins are there.
AT_A_POINT: dict[type, Callable[[Asked[Any]], Totals]] = {
    ColumnGram: column_gram,
    RateSums: rate_sums,
    ResidualSums: residual_sums,
}


def _has_point(shard: Any, caches: Sequence[Any], request: RateSums | ResidualSums) -> bool:
    return all(request.at[0] in cache.margins for cache in caches)


def _has_points(shard: Any, caches: Sequence[Any], request: EvaluateAlong) -> bool:
    return all(token in cache.margins for cache in caches for token, _ in request.points)


def _has_state(shard: Any, caches: Sequence[Any], request: DualLine | DualSave | DualValue) -> bool:
    known = request.state.number, request.state.before
    numbers = [shard.ascent.number, *(cache.dual and cache.dual.number for cache in caches)]
    return all(number is not None and number in known for number in numbers)


def _always(shard: Any, caches: Sequence[Any], request: Any) -> bool:
    return True


# Whether a shard and the caches of its blocks answer a request without its rows; no type that is
# missing here is answered so.
FROM_CACHE: dict[type, Callable[[Any, Sequence[Any], Any], bool]] = {
    ConstantSums: _always,
    SaturatedLikelihood: _always,
    # a GPU's partitions depend on the columns that rows share
    DualShape: lambda shard, caches, request: shard.device == "cpu",
    RateSums: _has_point,
    ResidualSums: _has_point,
    EvaluateAlong: _has_points,
    OrdinalAlong: class_rows.has_margins,
    OutputsAlong: class_rows.has_margins,
    DualLine: _has_state,
    DualSave: _has_state,
    DualValue: _has_state,
}
