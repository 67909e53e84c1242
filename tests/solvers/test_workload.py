"""Costs of solvers follow from numbers of the workload."""

import itertools
import math
from dataclasses import replace

import pytest

from daskglm.core.facts import DataSummary
from daskglm.solvers import costs, get_solver, solver_names
from daskglm.solvers.workload import Workload
from tests.solvers.problems import make_objective


def workload(n=100_000, d=100, per_row=None, **changes):
    per_row = d if per_row is None else per_row
    nonzeros = n * per_row
    summary = DataSummary(n, d, nonzeros=nonzeros, nbytes=8 * nonzeros, sparse=per_row < d)
    known = {"curvature_ratio": 1.0, **changes}
    return Workload(summary, d, **known)


def passes(name, *args, **kwargs):
    return get_solver(name).cost(workload(*args, **kwargs))


def test_costs_depend_on_the_workload_alone():
    for name, d in itertools.product(solver_names(), (10, 500, 5000)):
        spec = get_solver(name)
        if spec.cost is not None:
            assert spec.cost(workload(d=d)) == spec.cost(workload(d=d)) > 0.0


def test_newton_costs_more_for_longer_rows_and_nothing_finite_beyond_the_largest_hessian():
    assert passes("newton", d=50) < passes("newton", d=500) < passes("newton", d=2000)
    assert passes("newton", d=costs.LARGEST_HESSIAN + 1) == math.inf
    small = workload(n=300, d=20)
    assert passes("newton", n=300, d=20) == small.newton_steps, "small Hessians are free"
    assert passes("newton", n=2000, d=500, quadratic=True) < passes("newton", n=2000, d=500)


def test_dual_ascent_costs_more_for_heavy_rows_short_rows_and_tight_tolerances():
    easy = passes("sdca", d=10_000, per_row=100, curvature_ratio=0.1)
    assert easy < passes("sdca", d=10_000, per_row=100, curvature_ratio=2.0)
    assert easy < passes("sdca", d=10_000, per_row=5, curvature_ratio=0.1)
    assert easy < passes("sdca", d=10_000, per_row=100, curvature_ratio=0.1, tol=1e-9)
    few = {"d": 10_000, "n": 500, "per_row": 100}
    hard = {"curvature_ratio": 1e3}
    alike = passes("sdca", d=400, n=500, per_row=100, **hard)
    assert passes("sdca", **few, **hard) < 0.1 * alike, "rows that are nearly orthogonal"


def test_rounds_cost_passes_only_where_requests_leave_the_process():
    near, far = workload(), workload(remote=True)
    assert near.rounds(5) == 0.0 < far.rounds(1) < replace(far, workers=8).rounds(1)
    assert far.rounds(1) < replace(far, threads=64).rounds(1), "passes are shorter there"
    for name in ("newton", "tron", "lbfgs", "sdca"):
        assert passes(name, d=3000, per_row=30) <= passes(name, d=3000, per_row=30, remote=True)


def test_samples_that_travel_cost_one_round_and_their_bytes():
    far, shares = workload(remote=True), [0.01, 0.1]
    near = replace(far, travelling=64 * 2**20)
    assert workload().sample_rounds(shares, 11) == 0.0
    assert not far.travels(shares)
    assert far.sample_rounds(shares, 11) == far.rounds(11)
    wide = replace(near, summary=replace(near.summary, nbytes=1_600_000_000))
    assert near.travels(shares)
    assert near.rounds() < near.sample_rounds(shares, 11) < far.rounds(11)
    assert not wide.travels(shares), "176 MB"
    assert wide.sample_rounds(shares, 11) == wide.rounds(11)
    cost = get_solver("newton").cost
    assert cost(replace(far, remote=False)) < cost(near) < cost(far)


def test_lbfgs_is_for_several_margins_a_row_and_tron_for_one():
    several = {"d": 500, "outputs": 5}
    assert passes("lbfgs", d=500) == math.inf > passes("tron", d=500)
    assert passes("tron", **several) == math.inf > passes("lbfgs", **several)


def test_tron_takes_fewer_products_with_more_rows_for_each_feature():
    hard = {"d": 500, "curvature_ratio": 100.0}
    taken = [passes("tron", n=n, **hard) for n in (250, 500, 5_000, 500_000)]
    assert taken[0] > 0.9 * taken[1], "requests count for more beside few rows"
    assert taken[1] > 1.5 * taken[2] > 2.0 * taken[3]
    assert passes("tron", n=5_000, quadratic=True, **hard) < taken[2]


def test_newton_and_tron_take_more_for_harder_problems_up_to_a_limit():
    ratios = (0.0, 0.1, 10.0, 1e3, 1e9, math.inf)
    for name in ("newton", "tron"):
        taken = [
            passes(name, d=400, n=3000, curvature_ratio=ratio, samples=False) for ratio in ratios
        ]
        assert taken == sorted(taken)
        assert taken[0] < taken[2]
        assert taken[-1] == taken[-2] < math.inf


def test_sparse_hessians_cost_more_than_dense_ones():
    dense = workload(d=400)
    sparse = workload(d=400, n=dense.summary.n_rows * 10, per_row=40)
    assert sparse.summary.nonzeros == dense.summary.nonzeros
    assert sparse.gram / 40 > 3 * dense.gram / 400, "for each stored value of a row"
    fewer = workload(d=400, n=1000, per_row=40)
    assert fewer.gram > sparse.gram, "a large Hessian of few values costs more than a pass"
    beyond_cache = workload(d=600, n=dense.summary.n_rows * 100, per_row=40)
    assert beyond_cache.gram > 1.5 * sparse.gram


@pytest.mark.parametrize("loss", ["poisson", "gamma", "binomial", "logistic", "hinge"])
def test_auto_takes_no_dual_ascent_where_curvatures_grow_without_bound(loss):
    objective = make_objective(loss)
    assert objective.has_dual, "it is there by name"
    assert Workload.of(objective).has_dual == (loss not in ("poisson", "gamma"))


@pytest.mark.parametrize("has_dual", [True, False])
@pytest.mark.parametrize("penalised", [True, False])
def test_auto_may_take_dual_ascent_with_a_penalty_and_a_dual_that_has_a_rate(penalised, has_dual):
    found = get_solver("sdca").applies(workload(penalised=penalised, has_dual=has_dual))
    assert found == (penalised and has_dual)


def test_levels_without_a_penalty_take_few_hessians():
    known = {"per_row": 31, "n": 1_000_000, "d": 100_030, "blocks": ((0, 100_000),)}
    free = workload(**known, penalised=False, curvature_ratio=math.inf, tol=1e-8)
    held = workload(**known, curvature_ratio=1e3, tol=1e-8)
    assert free.newton_steps < held.newton_steps
    assert get_solver("newton").cost(free) < held.newton_steps * held.hessian_step


@pytest.mark.parametrize("sparse", [False, True])
def test_squared_hinges_of_few_rows_are_for_dual_ascent(sparse):
    """They took up to thirty times as long by TRON."""
    known = {"n_features": 5_000, "nonzeros": 250_000, "nbytes": 2_000_000, "sparse": sparse}
    few, many = (
        Workload(DataSummary(n_rows=n, **known), 5_000, jumps=True, curvature_ratio=1e4)
        for n in (5_000, 20_000)
    )
    assert few.row_ratio < 20.0
    assert many.row_ratio == 1e4


def test_squared_hinges_of_many_rows_take_few_hessians_whatever_the_ratio():
    """With 100 rows a feature drawn ones took 2 to 8 of them, 4 in the median; up to 15 were foreseen."""
    few, many = (workload(n=n, d=100, jumps=True, curvature_ratio=1e6) for n in (100, 10_000))
    assert few.newton_steps > 10.0
    assert many.newton_steps == costs.JUMP_STEPS
    assert many.decades == costs.MOST_DECADES < few.decades
