"""Margins from outside of the package are solved, and their answers proved, as the package's own."""

import numpy as np
import pytest

import daskglm
from daskglm.core.requests import Problem
from daskglm.data.partitions import partitions
from daskglm.engines.local import Local
from daskglm.losses.table import find
from daskglm.objectives.primal import Objective
from daskglm.solvers import get_solver
from tests.extending.several_targets import SeveralTargets, SideBySide

TARGETS = 3


@pytest.mark.parametrize("loss", ["squared", "poisson", "logistic"])
@pytest.mark.parametrize("solver", ["newton", "lbfgs", "tron"])
def test_several_targets_are_as_many_fits(loss, solver):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5))
    Z = X @ rng.standard_normal((5, TARGETS)) / 2
    Y = {"squared": Z, "poisson": rng.poisson(np.exp(Z)), "logistic": np.sign(Z + 0.1)}[loss]
    kind = find(loss)
    blocks = [partitions(X, y.astype(float), classify=kind.classifies).load() for y in Y.T]
    engine = SideBySide([Local(each, threads=1) for each in blocks])
    objective = Objective(
        engine,
        Problem(kind.ref, 1.0 if kind.classifies else None),
        kind,
        C=0.5,
        margins=SeveralTargets(5, TARGETS),
    )
    certificate, gap = objective.certificate(1e-9), np.inf
    for iterate in get_solver(solver).run(objective, objective.origin):
        point, gap = certificate(iterate.point)
        if gap <= 1e-9:
            break
    assert gap <= 1e-9, "proved for all targets together"
    alone = [daskglm.fit(X, y, loss=loss, C=0.5, fit_intercept=False, tol=1e-12) for y in Y.T]
    found = point.w.reshape(TARGETS, 5)
    np.testing.assert_allclose(found, [model.coef_.ravel() for model in alone], atol=1e-3)
    assert point.value == pytest.approx(sum(m.report_.objective for m in alone), rel=1e-9)
    engine.close()
