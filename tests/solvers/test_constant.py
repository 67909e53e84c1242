"""Where only one class has weight, a constant is the optimum."""

import numpy as np
import pytest

from daskglm.core.outcome import Reason
from daskglm.data.blocks import Place, to_block
from daskglm.engines.local import Local
from daskglm.losses.table import LOSSES
from daskglm.objectives.primal import Objective
from daskglm.solvers.constant import constant


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge"])
@pytest.mark.parametrize("weighted", [1.0, -1.0])
def test_the_class_with_weight_is_predicted(loss, weighted):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 3)), np.where(rng.random(50) < 0.5, 1.0, -1.0)
    weight = (y == weighted) * 1.0
    law = LOSSES[loss]
    block = to_block(X, y, weight, place=Place(), classify=True)
    from daskglm.core.requests import Problem

    problem = Problem(law.ref, 1.0)
    sides = (weight[y > 0].sum(), weight[y < 0].sum())
    objective = Objective(Local([block]), problem, law, C=1.0, fit_intercept=True, sides=sides)
    assert objective.only_side == weighted

    iterates = constant(objective)
    point = next(iterates).point
    np.testing.assert_array_equal(point.w[:3], 0.0)
    assert np.sign(point.w[3]) == weighted
    assert point.value <= 50 * np.finfo(float).eps
    with pytest.raises(StopIteration) as end:
        next(iterates)
    assert end.value.value is Reason.ONE_SIDE
