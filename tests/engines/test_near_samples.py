"""Samples travel to the client once; requests about them cost no round after."""

import contextlib
import math
import os
import signal
from dataclasses import dataclass, replace

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from distributed import Client

import daskglm
from daskglm.core import sample_requests
from daskglm.core.facts import DataSummary
from daskglm.core.requests import Evaluate, EvaluateAlong, Folds, HessianVector, LossRef, Problem
from daskglm.core.sample_requests import bytes_of, fitting, pays
from daskglm.core.view import ALL, Columns, Drawn, Soon, View
from daskglm.data.partitions import partitions
from daskglm.engines import near_samples
from daskglm.engines.factory import make_engine
from daskglm.engines.local import Local
from daskglm.worker.device_placement import DeviceConfig
from tests.engines.fits import small_cluster
from tests.solvers.samples import large

# blocks are so large that none are joined, wherever they are
N, D, PARTITION = 6000, 5, 1500
RNG = np.random.default_rng(8)
X = RNG.standard_normal((N, D))
Y = RNG.integers(0, 2, N).astype(float)
WEIGHT, OFFSET = RNG.uniform(0.5, 2.0, N), RNG.uniform(-0.5, 0.5, N)
W, V = RNG.standard_normal((2, D + 1))
PROBLEM = Problem(LossRef("logistic"), 1.0)
SMALL, LARGE = Drawn(0.02, 20), Drawn(0.2, 21)
BOTH = (SMALL, LARGE)


def data_of(storage="dense"):
    rows = sp.csr_matrix(X) if storage == "csr" else X
    chunks = [
        da.from_array(rows[k : k + PARTITION], chunks=-1, asarray=False)
        for k in range(0, N, PARTITION)
    ]
    y, weight, offset = (da.from_array(each, chunks=PARTITION) for each in (Y, WEIGHT, OFFSET))
    return partitions(da.concatenate(chunks), y, weight, offset=offset, classify=True)


@contextlib.contextmanager
def on_workers(client, data=None):
    with contextlib.closing(make_engine(data or data_of(), client, DeviceConfig())) as engine:
        yield engine


def in_process(data=None):
    return Local((data or data_of()).load(), 1)


def questions():
    yield Evaluate(W, 1, gram=True, exact=True)
    yield Evaluate(V, 2, beside=1)
    yield HessianVector(V, (1, W))
    yield EvaluateAlong(((1, W), (2, V)), np.array([[0.25, 0.75]]), np.array([[0.1]]))


def soon(*parts):
    return tuple(Soon(part, math.inf) for part in parts)


def check(engine, reference, problem=PROBLEM, parts=BOTH):
    for part in parts:
        for request in questions():
            found = engine.total(problem, request, View(part, soon=soon(*parts)))
            expected = reference.total(problem, request, View(part))
            assert found.keys() == expected.keys()
            for name, value in expected.items():
                np.testing.assert_allclose(found[name], value, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_rows_are_those_that_are_drawn_in_process_and_travel_in_one_round(client, storage):
    data = data_of(storage)
    with on_workers(client, data) as engine:
        check(engine, in_process(data))
        assert engine.rounds == 1
        sent = bytes_of(SMALL.share + LARGE.share, engine.facts)
        assert 0.5 * sent < engine.bytes_reduced < sent
        # all rows are asked as before, and that does not drop samples
        assert engine.total(PROBLEM, Evaluate(W, 3))["rows"] == N
        check(engine, in_process(data))
        assert engine.rounds == 2


@pytest.mark.parametrize("divided", [{"groups": np.repeat(np.arange(4), N // 4)}, {"seed": 3}])
def test_rows_that_travel_keep_their_folds(client, divided):
    roles = tuple(tuple(int(group == fold) for fold in range(4)) for group in range(4))
    folds = Folds("four", roles, **divided)
    with on_workers(client) as engine:
        check(engine, in_process())
        for fold in (0, 3):
            check(engine, in_process(), Problem(LossRef("logistic"), 1.0, folds=folds, fold=fold))
        assert engine.rounds == 2, "one more with the classes of all rows"


def test_parts_that_are_too_large_stay_with_the_workers(client, monkeypatch):
    with on_workers(client) as engine:
        most = int(bytes_of(0.1, engine.facts))
        monkeypatch.setattr(near_samples, "TRAVELLING_BYTES", most)
        assert fitting(dict(soon(*BOTH)), engine.facts, most) == (SMALL,)
        check(engine, in_process())
        assert engine.rounds == 1 + len([*questions()])


def test_parts_stay_with_the_workers_for_the_few_requests_that_cost_less(client, monkeypatch):
    with on_workers(client) as engine:
        monkeypatch.setattr(sample_requests, "ROUND_BYTES", int(bytes_of(0.05, engine.facts)))
        few = tuple(Soon(part, 2.0) for part in BOTH)
        reference = in_process()
        for part in BOTH:
            found = engine.total(PROBLEM, Evaluate(W, 1), View(part, soon=few))
            expected = reference.total(PROBLEM, Evaluate(W, 1), View(part))
            np.testing.assert_allclose(found["gradient"], expected["gradient"], rtol=1e-10)
        assert engine.rounds == 2, "one in which the small part travels, one about the large one"
        assert engine.bytes_reduced < bytes_of(1.5 * SMALL.share, engine.facts) + 1000


def test_the_oldest_parts_make_room_for_new_ones(client, monkeypatch):
    others = Drawn(0.1, 5), Drawn(0.1, 6)
    with on_workers(client) as engine:
        monkeypatch.setattr(near_samples, "TRAVELLING_BYTES", int(bytes_of(0.25, engine.facts)))
        for part in (*others, LARGE, *others):
            check(engine, in_process(), parts=(part,))
        assert engine.rounds == 5
        check(engine, in_process(), parts=others)
        assert engine.rounds == 5


def test_rows_out_of_core_do_not_travel(client):
    with contextlib.closing(make_engine(data_of(), client, DeviceConfig(), read=True)) as engine:
        assert engine.capabilities.travelling == 0
        assert engine.total(PROBLEM, Evaluate(W, 1), View(SMALL))["rows"] == 120


@dataclass(frozen=True)
class Deadly(Drawn):
    """A part of the rows whose first worker dies when it draws them."""

    died: str = ""

    def rows(self, n, partition, first):
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self.died, os.O_CREAT | os.O_EXCL))
            os.kill(os.getpid(), signal.SIGKILL)
        return super().rows(n, partition, first)


def test_a_worker_killed_while_rows_travel_changes_nothing(tmp_path):
    died = tmp_path / "died"
    with small_cluster() as cluster, Client(cluster) as client, on_workers(client) as engine:
        part = Deadly(LARGE.share, LARGE.seed, str(died))
        found = engine.total(PROBLEM, Evaluate(W, 1, gram=True), View(part, soon=soon(part)))
        assert died.exists()
        assert engine.repairs >= 1
        expected = in_process().total(PROBLEM, Evaluate(W, 1, gram=True), View(LARGE))
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-10)


def test_a_worker_that_dies_later_does_not_matter_to_rows_that_have_travelled():
    with small_cluster() as cluster, Client(cluster) as client, on_workers(client) as engine:
        check(engine, in_process())
        os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
        check(engine, in_process())
        assert (engine.rounds, engine.repairs) == (1, 0)


# Rounds of whole fits of 60,000 rows: that of the samples, and one for each point of all rows. Those
# of solvers that are fewer than points in process are searches by kept margins, or products.
@pytest.mark.parametrize(
    ("loss", "options", "rounds"),
    [
        ("logistic", {}, 4),
        ("logistic", {"solver": "proximal_newton", "l1_ratio": 1.0, "C": 0.01}, 4),
        ("poisson", {}, 6),
        ("squared", {}, 1),
        ("squared_hinge", {}, 5),
    ],
)
def test_samples_add_one_round_to_a_fit(client, loss, options, rounds):
    rows, targets = large(loss)
    lazy = da.from_array(rows, chunks=(15_000, -1)), da.from_array(targets, chunks=15_000)
    model = daskglm.fit(*lazy, loss=loss, tol=1e-6, client=client, **options)
    here = daskglm.fit(rows, targets, loss=loss, tol=1e-6, n_jobs=1, **options)
    assert model.report_.converged
    assert model.report_.rounds <= rounds
    assert abs(model.report_.passes - here.report_.passes) <= 1.0
    assert model.report_.objective == pytest.approx(here.report_.objective, rel=1e-6)


# ---- all rows
def check_all(engine, reference, problem=PROBLEM, view=ALL):
    for request in questions():
        found = engine.total(problem, request, view)
        expected = reference.total(problem, request, view)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_all_rows_come_after_as_many_rounds_as_they_take(client, storage, monkeypatch, rows_come):
    data = data_of(storage)
    with on_workers(client, data) as engine:
        monkeypatch.setattr(sample_requests, "ROUND_BYTES", bytes_of(1.0, engine.facts) / 3.5)
        check_all(engine, in_process(data))
        assert engine.rounds == len([*questions()]) == 4, "three would not pay"
        before = engine.bytes_reduced
        check_all(engine, in_process(data))
        assert engine.rounds == 5, "the one in which they travel"
        assert engine.bytes_reduced - before < 1.2 * bytes_of(1.0, engine.facts)
        check(engine, in_process(data))
        assert engine.rounds == 6, "samples as before"
        some = View(columns=Columns(7, np.array([1, 3])))
        few = Evaluate(W[[1, 3, D]], 9)
        found, expected = engine.total(PROBLEM, few, some), in_process(data)
        np.testing.assert_allclose(
            found["gradient"], expected.total(PROBLEM, few, some)["gradient"], rtol=1e-10
        )
        assert engine.rounds == 6


def test_rows_that_came_are_asked_about_what_needs_no_numbers_of_rows(client, rows_come):
    folds = Folds("two", ((1, 0), (0, 1)), seed=3)
    with on_workers(client) as engine:
        engine.total(PROBLEM, Evaluate(W, 50))  # as many rounds as they take
        check_all(engine, in_process())
        came = engine.rounds
        divided = Problem(LossRef("logistic"), 1.0, folds=folds, fold=1)
        check_all(engine, in_process(), divided)
        assert engine.rounds == came + len([*questions()])
        several = Problem(LossRef("multinomial"), classes=(0.0, 1.0))
        asked = Evaluate(np.stack([W, V]), 11)
        found = engine.total(several, asked)
        expected = in_process().total(several, asked)
        np.testing.assert_allclose(found["gradient"], expected["gradient"], rtol=1e-10)
        assert engine.rounds == came + len([*questions()])


@pytest.mark.parametrize("divided", [False, True])
def test_an_engine_of_this_process_has_the_rows_that_are_brought(client, divided):
    folds = Folds("two", ((1, 0), (0, 1)), seed=3) if divided else None
    problem = Problem(LossRef("logistic"), 1.0, folds=folds, fold=1 if divided else None)
    with on_workers(client) as engine:
        here, reference = engine.brought(problem), in_process()
        can = replace(here.capabilities, threads=1)
        assert can == reference.capabilities
        check_all(here, reference, problem)
        check(here, reference, problem)
        engine.brought(problem)
        assert engine.rounds == 1


def test_rows_that_are_too_many_are_not_brought(client, monkeypatch):
    with on_workers(client) as engine:
        most = int(bytes_of(1.0, engine.facts)) - 1
        monkeypatch.setattr(sample_requests, "TRAVELLING_BYTES", most)
        assert engine.brought(PROBLEM) is None
        assert engine.rounds == 0


@pytest.mark.parametrize(
    ("there", "here", "comes"), [(2, 2, True), (2, 1, True), (64, 1, False), (64, 16, True)]
)
def test_rows_stay_with_workers_that_read_them_faster_than_messages_travel(there, here, comes):
    facts = DataSummary(n_rows=1000, n_features=10, nbytes=20 * 2**20)
    assert pays(facts, 1000, there, here) is comes
    assert not pays(facts, 10, there, here)
    assert not pays(replace(facts, nbytes=100 * 2**20), 10**6, there, here)


def test_rows_out_of_core_do_not_come(client, rows_come):
    with contextlib.closing(make_engine(data_of(), client, DeviceConfig(), read=True)) as engine:
        for k in range(4):
            engine.total(PROBLEM, Evaluate(W, k))
        assert engine.rounds == 4


@pytest.mark.parametrize("solver", ["tron", "lbfgs"])
def test_a_fit_of_many_passes_takes_few_rounds(client, solver, rows_come):
    given = {"solver": solver, "tol": 1e-9, "C": 100.0}
    chunks = da.from_array(X, chunks=(PARTITION, D)), da.from_array(Y, chunks=PARTITION)
    report = daskglm.fit(*chunks, client=client, **given).report_
    here = daskglm.fit(X, Y, **given).report_
    assert report.rounds <= 4 < report.passes
    assert report.passes == pytest.approx(here.passes, abs=2.0)
    assert report.objective == pytest.approx(here.objective, rel=1e-9)


def test_a_worker_that_dies_later_does_not_matter_to_rows_that_came(rows_come):
    with small_cluster() as cluster, Client(cluster) as client, on_workers(client) as engine:
        engine.total(PROBLEM, Evaluate(W, 50))  # as many rounds as they take
        check_all(engine, in_process())
        came = engine.rounds
        os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
        check_all(engine, in_process())
        assert (engine.rounds, engine.repairs) == (came, 0)
