"""The model of benchmarks/scaling/model.py: arithmetic, no cluster."""

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.scaling import model, model_page
from daskglm.engines import cluster
from daskglm.fitting import solvable
from daskglm.solvers import get_solver

MACHINE = model.Machine(latency=1e-3, per_message=1e-4, network=1e9)
COST = model.Cost(passes=10, rounds=12, vectors=24)
CRITEO = model.SHAPES[1]
FITTED = model.Fit(1e-3, 5e-4, 4e8, 2, 0.0, 0.0, 30)


def points(constants, cores, noise=0.0):
    latency, per_message, network = constants
    known = model.Fit(latency, per_message, network, cores, 0, 0, 0)
    random = np.random.default_rng(0)
    return [
        model.Point(
            n, d, way, known.predict(n, d, way) * math.exp(noise * random.standard_normal())
        )
        for n in (1, 2, 4, 8, 16)
        for d in (28, 47_000, 1_000_000)
        for way in ("star", "tree")
    ]


@pytest.mark.parametrize("cores", [2, 4, 64])
@pytest.mark.parametrize("constants", [(1e-3, 5e-4, 4e8), (5e-3, 1e-5, 1e10)])
def test_the_fit_finds_the_constants_it_was_made_with(constants, cores):
    fitted = model.fit(points(constants, cores), cores)
    assert (fitted.latency, fitted.per_message, fitted.network) == pytest.approx(
        constants, rel=1e-6
    )
    assert fitted.max_error < 1e-8


def test_the_fit_is_near_with_noise_and_says_how_far_it_is():
    fitted = model.fit(points((1e-3, 5e-4, 4e8), 2, noise=0.1), 2)
    assert fitted.network == pytest.approx(4e8, rel=0.2)
    assert fitted.per_message == pytest.approx(5e-4, rel=0.3)
    assert 0 < fitted.median_error < 0.2 < 1
    assert fitted.median_error <= fitted.max_error


def test_constants_are_never_negative():
    falling = [model.Point(n, d, "star", 1 / n) for n in (1, 2, 4) for d in (28, 1000)]
    fitted = model.fit(falling, 8)
    assert min(fitted.latency, fitted.per_message, fitted.network) >= 0


@pytest.mark.parametrize("key", ["passes", "rounds", "vectors"])
def test_more_work_takes_longer(key):
    more = replace(COST, **{key: 2 * getattr(COST, key)})
    for scheme in ("star", "leaders", "binary", "pipelined"):
        few, many = (model.time(cost, CRITEO, MACHINE, 16, scheme) for cost in (COST, more))
        assert many.total > few.total
        assert sum(a > b for a, b in zip(many, few, strict=True)) == 1  # each enters one part


def test_more_bytes_features_and_slower_machines_take_longer():
    base = model.time(COST, CRITEO, MACHINE, 16, "leaders").total
    assert (
        model.time(COST, replace(CRITEO, nbytes=2 * CRITEO.nbytes), MACHINE, 16, "leaders").total
        > base
    )
    assert (
        model.time(
            COST, replace(CRITEO, features=2 * CRITEO.features), MACHINE, 16, "leaders"
        ).total
        > base
    )
    assert model.time(COST, CRITEO, replace(MACHINE, network=5e8), 16, "leaders").total > base
    assert model.time(replace(COST, rate=1e8), CRITEO, MACHINE, 16, "leaders").total > base
    assert (
        model.time(COST, CRITEO, MACHINE, 128, "leaders").compute
        < model.time(COST, CRITEO, MACHINE, 16, "leaders")[0]
    )


def test_time_is_the_formula():
    seconds = model.time(COST, CRITEO, MACHINE, 16, "star")
    assert seconds.compute == pytest.approx(10 * CRITEO.nbytes / 16 / 200e9)
    assert seconds.latency == pytest.approx(12 * (1e-3 + 32 * 1e-4))
    assert seconds.transfer == pytest.approx(24 * 8e6 * 32 / 1e9)


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 8, 9, 16, 32, 100, 256, 2048])
def test_depth_is_that_of_the_tree_of_daskglm(workers, monkeypatch):
    monkeypatch.setattr(cluster, "STAR_WORKERS", 1)
    tree = cluster._tree([f"tcp://10.0.0.{i:05}:1" for i in range(workers)])
    under = max(map(len, tree.values()))
    assert model.depth(workers, "tree") == (2 if under else 1, len(tree) + under)
    monkeypatch.setattr(cluster, "STAR_WORKERS", 10**6)
    assert model.depth(workers, "star") == (1, len(cluster._tree([str(i) for i in range(workers)])))


def test_depth_elsewhere():
    assert model.depth(2048, "binary") == (11, 11)
    assert model.depth(1, "binary") == (0, 0)
    assert (
        model.depth(16, "tree", cores=2).messages == model.depth(16, "star", cores=2).messages == 16
    )
    with pytest.raises(ValueError, match="no scheme"):
        model.depth(4, "ring")


def test_picks_are_stated_for_all_eighteen_combinations():
    for scheme in model.SCHEMES:
        predictions = model.predict(FITTED, model.COUNTS, scheme)
        assert len({(p.shape.name, p.nodes, p.gbit) for p in predictions}) == 18
        for p in predictions:
            assert p.pick in model.SOLVERS
            assert all(0 < seconds.total < math.inf for seconds in p.seconds.values())
            assert p.seconds[p.pick].total == min(seconds.total for seconds in p.seconds.values())
        assert model_page.predictions_part(predictions).count("**") == 2 * 18


def test_newton_is_refused_where_daskglm_refuses_it():
    assert model.HESSIAN_BYTES == solvable.HESSIAN_BYTES
    assert model.gram_refused(1_000_000)
    for p in model.predict(FITTED, model.COUNTS, "leaders"):
        assert ("newton" in p.seconds) == (p.shape.name == "HIGGS")
    for d in (28, 32_768, 32_769, 1_000_000):
        try:
            solvable.check_size(get_solver("newton"), d)
        except ValueError:
            assert model.gram_refused(d)
        else:
            assert not model.gram_refused(d)


def test_rounds_of_sdca_grow_with_workers_and_those_of_others_do_not():
    for shape in model.SHAPES:
        few, many = (model.cost(model.COUNTS, shape, "sdca", n) for n in (32, 2048))
        assert few.passes < many.passes <= 64 * few.passes * (1 + 1e-9)
        assert model.cost(model.COUNTS, shape, "tron", 32) == model.cost(
            model.COUNTS, shape, "tron", 2048
        )


def test_records_replace_the_counts_kept_for_their_data():
    record = {
        "kind": "count",
        "data": "HIGGS",
        "solver": "tron",
        "workers": 1,
        "passes": 7,
        "rounds": 8,
    }
    record |= {"vectors_down": 9, "vectors_up": 1, "nbytes": 100, "row_seconds": 2.0, "threads": 2}
    counts = model.counts_of([record, {"kind": "round"}])
    assert [c for c in counts if c.data == "HIGGS"] == [
        model.Count("HIGGS", "tron", 1, 7, 8, 10, 175.0)
    ]
    assert [c for c in counts if c.data != "HIGGS"] == [
        c for c in model.COUNTS if c.data != "HIGGS"
    ]


def test_all_data_fit_but_not_in_small_nodes():
    assert all(p.fits for p in model.predict(FITTED, model.COUNTS, "leaders"))
    assert model.memory(CRITEO, MACHINE, 1) > MACHINE.memory
    assert model.memory(CRITEO, MACHINE, 128) < model.memory(CRITEO, MACHINE, 16)


def test_the_page_has_every_part(tmp_path):
    scaling = pytest.importorskip("benchmarks.scaling.__main__")
    text = scaling.page(points((1e-3, 5e-4, 4e8), 2), 2, model.COUNTS)
    for part in (
        "## The fit",
        "## What is assumed",
        "## Predictions: ideal",
        "## The client's link",
        "extrapolated",
    ):
        assert part in text
    assert "nan" not in text.replace("nanosecond", "")
