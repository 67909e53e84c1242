"""The soak's own arithmetic: its reference is the optimum, wrong answers are seen, what grows is not flat."""

from dataclasses import replace

import numpy as np
import pytest

import daskglm
from benchmarks.soak.fits import LOSSES, block, check, draw, evaluate, optimum
from benchmarks.soak.processes import FAULTS
from benchmarks.soak.record import flatness


@pytest.mark.parametrize("loss", LOSSES)
def test_the_reference_is_the_optimum_and_a_worse_point_is_seen(loss):
    case = replace(
        draw(0, np.random.default_rng(0), FAULTS),
        loss=loss,
        fault="none",
        solver="newton",
        rows=300,
        columns=4,
    )
    X, y = block(case, 0)
    model = daskglm.fit(X, y, loss=loss, tol=1e-8, solver="newton")
    w = np.append(np.ravel(model.coef_), np.ravel(model.intercept_))
    assert evaluate(X, y, loss, 1.0, w)[0] == pytest.approx(
        optimum(X.astype(float), y, loss, 1.0), rel=1e-6
    )
    check(X.astype(float), y, replace(case, tol=1e-5), 1.0, model)
    model.coef_ = model.coef_ * 1.1
    with pytest.raises(AssertionError, match="the gap is"):
        check(X.astype(float), y, replace(case, tol=1e-5), 1.0, model)


def test_what_grows_is_not_flat():
    def samples(growth):
        taken = {"pid": 1, "threads": 5, "fds": 20}
        names = ("client", "scheduler", "a", "b")
        return [
            {
                "kind": "sample",
                "t": float(t),
                **{n: {**taken, "rss_mb": 300.0 + growth * t} for n in names},
            }
            for t in range(5, 1800, 5)
        ]

    assert all(row["flat"] for row in flatness(samples(0.005)))
    uneven = [row for row in flatness(samples(0.05)) if not row["flat"]]
    assert {row["measure"] for row in uneven} == {"rss_mb"}
    assert len(uneven) == 4
