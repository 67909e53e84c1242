"""Dual variables of blocks: asked twice, forgotten and rebuilt."""

import importlib

import numpy as np
import pytest

import daskglm
from daskglm.core.view import ALL
from daskglm.duals import along
from daskglm.duals import dual as dual_module
from tests.conftest import make_problem
from tests.solvers.ascents import PARAMS, rows


def test_every_dual_request_asked_twice_changes_nothing():
    """A repeated request (a reply was lost) finds the same state and gives the same totals, bit by bit."""
    from daskglm.core.requests import Problem, SDCAConfig
    from daskglm.data.partitions import partitions
    from daskglm.engines.local import Local
    from daskglm.losses.table import LOSSES
    from daskglm.objectives.primal import Objective

    class Twice(Local):
        def total(self, problem, request, view=ALL):
            first = super().total(problem, request, view)
            kept = {name: np.array(value, copy=True) for name, value in first.items()}
            again = super().total(problem, request, view)
            for name in set(kept) - {"rows", "rebuilt"}:
                np.testing.assert_array_equal(kept[name], again[name])
            return again

    def run(engine):
        loss = LOSSES["logistic"]
        objective = Objective(engine, Problem(loss.ref, 1.0), loss, C=0.05, fit_intercept=True)
        dual = dual_module.Dual(objective, np.zeros(objective.size), SDCAConfig(partitions=2), 0)
        for k in range(8):
            dual.round(1.0, 2.0)
            if k > 2:
                along.line(dual, np.array([[1.0, 0.0], [0.5, 0.1]]))
            dual.commit(0.9, 0.05 if k > 2 else 0.0, keep=k > 1)
        return dual.certificate()

    X, y = make_problem(800, 6, seed=1)
    blocks = partitions(X, y, None, classify=True).load
    once, twice = run(Local(blocks(), 2)), run(Twice(blocks(), 2))
    np.testing.assert_array_equal(once.w, twice.w)
    assert once.dual == twice.dual


@pytest.mark.parametrize("forget", ["round", "line", "certificate"])
def test_forgotten_dual_variables_are_rebuilt(forget, monkeypatch):
    """Whatever a block remembered may vanish before any request: v stays what the rows say, the optimum the same."""
    from daskglm.worker import dual_state as ascent

    X, y = make_problem(1500, 8, seed=2)
    params = {**PARAMS, "tol": 1e-8}
    options = {"polish": False, "aggregation": "search"}
    best = daskglm.fit(X, y, C=0.05, tol=1e-12).report_.objective
    calls = {"n": 0}
    answer = ascent.DualWorker.answer
    kinds = {"round": "DualRound", "line": "DualLine", "certificate": "DualTotals"}

    def forgetful(self, law, request, caches):
        if type(request).__name__ == kinds[forget]:
            calls["n"] += 1
            if calls["n"] in ((1,) if forget == "certificate" else (4, 7)):
                for cache in caches[::2]:
                    cache.dual = None
        return answer(self, law, request, caches)

    watch = importlib.import_module("daskglm.solvers.sdca")._Watch
    again, before = [], watch.start_again
    monkeypatch.setattr(watch, "start_again", lambda self: again.append(self.least) or before(self))
    monkeypatch.setattr(ascent.DualWorker, "answer", forgetful)
    lazy, labels = rows(X, y)
    model = daskglm.fit(lazy, labels, solver_options=options, **params)
    assert calls["n"] >= (1 if forget == "certificate" else 7)
    if forget != "certificate":  # which may prove enough even so
        assert again, "what was reached before is no measure of progress any more"
    assert (model.report_.objective - best) / best <= 1e-8
    assert model.report_.relative_gap <= 1e-8


def test_a_lost_block_discards_the_pending_change_of_all(monkeypatch):
    """The sums that a worker keeps are those of the dual variables that its blocks have, whatever was lost."""
    from daskglm.core.requests import Problem, SDCAConfig
    from daskglm.data.blocks import Place, to_block
    from daskglm.engines.local import Local
    from daskglm.losses.table import LOSSES
    from daskglm.objectives.primal import Objective
    from daskglm.worker.dual_state import DualWorker

    bring, lost = DualWorker._bring, []

    def forgetful(self, law, state, caches):
        if len(lost) == 5 and self.number == state.before:  # a change is pending
            caches[1].dual = None
        read = bring(self, law, state, caches)
        lost.append(read)
        np.testing.assert_allclose(self.own, self._read(state, caches), rtol=1e-9, atol=1e-12)
        return read

    monkeypatch.setattr(DualWorker, "_bring", forgetful)
    X, y = make_problem(800, 6, seed=1)
    # of two dtypes, or they would be joined
    halves = (X[::2], y[::2]), (X[1::2].astype(np.float32), y[1::2])
    blocks = [to_block(*half, place=Place(), classify=True) for half in halves]
    loss = LOSSES["logistic"]
    objective = Objective(
        Local(blocks, 1), Problem(loss.ref, 1.0), loss, C=0.05, fit_intercept=True
    )
    dual = dual_module.Dual(objective, np.zeros(objective.size), SDCAConfig(partitions=1), 0)
    for _ in range(8):
        dual.round(1.0, 1.0)
        dual.commit(1.0)
    assert sum(lost[1:]) > 0
