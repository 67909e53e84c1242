"""The form of docs/choose.md in a browser, beside what the package computes and does."""

import json
import math
from dataclasses import dataclass, replace
from types import SimpleNamespace

import dask.config
import distributed  # noqa: F401  (its defaults are part of Dask's configuration then)
import numpy as np
import pytest
import scipy.sparse as sp

import daskglm
from daskglm.core.facts import DataSummary
from daskglm.core.sample_requests import TRAVELLING_BYTES
from daskglm.data.loading import BESIDE, check_room
from daskglm.data.sparse_rows import canonical
from daskglm.data.values import Place, as_float
from daskglm.fitting.solvable import check_size
from daskglm.losses.table import LOSSES
from daskglm.solvers import costs, get_solver, selection, solver_names
from daskglm.solvers.workload import Workload
from tests.browser import headless, opened
from tests.losses.formulas import FAMILIES
from tests.test_site import NARROW, PAGES, SITE, served

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not PAGES, reason="docs/_build/html is not there: run `make docs` first"),
]
GIB = 2**30
LARGEST_INT32 = 2**31 - 1


@dataclass(frozen=True)
class Case:
    """What is filled in; fields have the names of the form's, in the order of the form."""

    rows: int
    features: int
    storage: str = "dense"
    stored: float = 0
    dtype: str = "float64"
    squares: float | None = None
    loss: str = "logistic"
    C: float = 1
    memory: float = 16
    workers: int = 0
    worker_memory: float = 16
    threads: int = 8

    @property
    def sparse(self):
        return self.storage == "sparse"

    @property
    def summary(self):
        stored = self.stored if self.sparse else self.features
        squares = stored if self.squares is None else self.squares
        return DataSummary(
            n_rows=self.rows,
            n_features=self.features,
            squared_norms=squares * self.rows,
            nonzeros=round(self.rows * stored),
            nbytes=self.nbytes[1],
            sparse=self.sparse,
        )

    @property
    def nbytes(self):
        """Bytes of one matrix, and of small partitions."""
        item = as_float(np.zeros(1, self.dtype), "X").itemsize
        if not self.sparse:
            return (self.rows * self.features * item,) * 2
        values = round(self.rows * self.stored)
        index = 4 if values < LARGEST_INT32 and self.features < LARGEST_INT32 else 8
        part = 4 if self.features < LARGEST_INT32 else 8
        return tuple(values * (item + each) + (self.rows + 1) * each for each in (index, part))

    @property
    def place(self):
        """Where it fits, by the function that refuses data."""
        pause = dask.config.get("distributed.worker.memory.pause")
        one, parts = self.nbytes
        if _fits(one, self.memory * GIB):
            return "process"
        if self.workers and _fits(parts, pause * self.workers * self.worker_memory * GIB):
            return "workers"
        return "workers, read" if self.workers else "process, read"

    @property
    def workload(self):
        loss = LOSSES[self.loss]
        on_workers = self.place.startswith("workers")
        samples = not self.place.endswith("read")
        workers = self.workers if on_workers else 1
        summary = self.summary
        remote = on_workers and samples
        return Workload(
            summary=summary,
            size=self.features + 1,
            smooth=loss.differentiable,
            quadratic=loss.is_quadratic,
            jumps=loss.jumps,
            has_ends=loss.link is not None and loss.link.is_bounded,
            has_dual=loss.has_dual,
            has_corners=loss.smoothed is not None and not loss.classifies,
            curvature_ratio=_curvature(loss) * self.C * summary.squared_norms / self.rows * workers,
            samples=samples,
            remote=remote,
            travelling=TRAVELLING_BYTES if remote else 0,
            workers=workers,
            threads=self.workers * self.threads if remote else 1,
        )

    @property
    def costs(self):
        workload = self.workload
        specs = [get_solver(name) for name in solver_names()]
        return {spec.name: spec.cost(workload) for spec in specs if spec.applies(workload)}


SPARSE = Case(700_000, 47_000, "sparse", 73.5, squares=1)
CASES = [
    Case(1_000_000, 20, loss="quantile"),
    Case(20_000, 2_500, loss="epsilon_insensitive"),
    Case(1_000_000, 100),
    Case(1_000_000, 1_000, dtype="float32", memory=4),
    Case(200, 20, loss="squared"),
    Case(20_000, 1_500, loss="squared_hinge", C=0.01),
    Case(500_000, 2_001, dtype="int8", memory=64),
    Case(100_000, 40_000, memory=8, workers=4, worker_memory=32),
    Case(1_000_000_000, 300, memory=64, workers=20, worker_memory=256, threads=16),
    Case(1_000_000_000, 300, memory=64),
    Case(10_000_000, 50, memory=1, workers=2, worker_memory=1),
    SPARSE,
    Case(700_000, 47_000, "sparse", 73.5, squares=1, loss="smoothed_hinge", C=100),
    Case(30_000_000, 1_000_000, "sparse", 80, "float32", squares=1, workers=8, memory=8),
    Case(45_000_000, 1_000_000, "sparse", 40, squares=1, workers=16, memory=8, worker_memory=8),
    Case(100_000, 30, loss="hinge"),
    Case(100_000, 30, loss="huber"),
    Case(100_000, 30, loss="squared_epsilon_insensitive"),
    Case(300_000, 400, "sparse", 10, loss="squared", C=10),
    Case(5_000, 2_000_000, "sparse", 5, loss="squared_hinge"),
    *(Case(50_000, 40, loss=name) for name in FAMILIES),
    # rows that fit without the tenth beside them
    Case(10_250_000, 100, memory=8, workers=1, worker_memory=10),
    # samples travel to the client
    Case(40_000_000, 20, dtype="float32", memory=2, workers=2, worker_memory=8),
    Case(
        200_000_000, 10_000, "sparse", 20, squares=1, C=2.8, memory=8, workers=4, worker_memory=64
    ),
]


def _curvature(loss):
    shares = loss.family is not None and math.isfinite(loss.family.domain.high)
    return loss.expected_curvature(0.5 if shares else 1.0)


def _fits(needed, there):
    try:
        check_room(needed, int(there), "it has")
    except MemoryError:
        return False
    return True


def _fill(page, case):
    for name in ("storage", "dtype", "loss"):
        page.locator(f"#chooser [name={name}]").select_option(getattr(case, name))
    for name in (
        "rows", "features", "squares", "C", "memory", "workers", "worker_memory", "threads"
    ):  # fmt: skip
        value = getattr(case, name)
        page.locator(f"#chooser [name={name}]").fill("" if value is None else str(value))
    if case.sparse:
        page.locator("#chooser [name=stored]").fill(str(case.stored))


def _answer(page):
    """Values from which the answers were written, by name; costs in passes."""
    found = page.locator("#chooser-answer dd[data-value]").evaluate_all(
        "all => all.map(each => [each.id.replace('chooser-', ''), each.dataset.value])"
    )
    return dict(found), json.loads(page.locator("#chooser-auto").get_attribute("data-costs"))


def _chosen(case, monkeypatch):
    """Return the solver that `auto` takes for this workload."""
    workload = case.workload
    monkeypatch.setattr(Workload, "of", lambda objective, tol: workload)
    return selection.choose(SimpleNamespace(loss=LOSSES[case.loss], passes=0.0))[0]


@pytest.fixture(scope="module")
def page():
    with (
        served() as address,
        headless() as browser,
        opened(browser, address + "choose.html", width=NARROW) as page,
    ):
        yield page


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case.rows}x{case.features}-{case.storage}-{case.loss}"
)
def test_numbers_are_those_of_the_package(case, page, monkeypatch):
    _fill(page, case)
    answer, foreseen = _answer(page)
    assert page.locator("#chooser-fault").inner_text() == ""
    assert int(answer["bytes"]) == case.nbytes[0]
    assert answer["place"] == case.place
    assert int(answer["hessian"]) == 8 * case.features**2

    loss = LOSSES[case.loss]
    possible = []
    for name in solver_names():
        spec = get_solver(name)
        takes = loss.has_dual if spec.solves_dual else loss.differentiable
        if not (loss.smoothed is not None if spec.rounds_corners else takes):
            continue
        try:
            check_size(spec, case.features)
        except ValueError:
            continue
        possible.append(name)
    assert answer["solvers"].split() == possible

    finite = {name: cost for name, cost in case.costs.items() if math.isfinite(cost)}
    assert foreseen == pytest.approx(finite, rel=1e-9)
    assert answer["auto"] == _chosen(case, monkeypatch)
    call = page.locator("#chooser-call").inner_text()
    assert ("out_of_core=True" in call) == case.place.endswith("read")
    assert ("client=client" in call) == case.place.startswith("workers")
    compile(call, "call", "exec")


def test_cases_cover_all_places_and_losses(monkeypatch):
    places = {"process", "workers", "process, read", "workers, read"}
    assert {case.place for case in CASES} == places
    assert {case.loss for case in CASES} == set(LOSSES)
    assert any(case.nbytes[0] != case.nbytes[1] for case in CASES)
    chosen = {_chosen(case, monkeypatch) for case in CASES}
    assert chosen == {"newton", "tron", "sdca", "proximal"}
    assert any(case.features > costs.LARGEST_HESSIAN for case in CASES)


def _rows(case):
    rng = np.random.default_rng(0)
    if case.sparse:
        X = sp.random(
            case.rows, case.features, case.stored / case.features, "csr", random_state=rng
        )
        X.data -= 0.5
        norms = np.sqrt(np.maximum(X.multiply(X).sum(axis=1).A1, 1e-30))
        X = sp.csr_matrix(sp.diags(1.0 / norms) @ X)
    else:
        X = rng.normal(size=(case.rows, case.features))
    return X, X @ rng.normal(size=case.features) + rng.normal(size=case.rows) > 0


FITS = {
    "few dense features": (Case(20_000, 20), ["newton"]),
    "many sparse features": (Case(40_000, 5_000, "sparse", 30, squares=1, C=30), ["tron"]),
    "more features than rows": (Case(20_000, 200_000, "sparse", 30, squares=1), ["sdca"]),
    "hinge": (Case(2_000, 10, loss="hinge"), ["sdca"]),
}


@pytest.mark.parametrize("name", FITS)
def test_the_solver_is_the_one_that_a_fit_takes(name, page):
    case, expected = FITS[name]
    X, y = _rows(case)
    _fill(page, case)
    answer, _ = _answer(page)
    assert answer["auto"].split() == expected
    report = daskglm.fit(X, y, loss=case.loss, C=case.C, random_state=0).report_
    # a name after "+" is of the solver that ended what the first one began
    assert report.solver.split("+")[0] in expected, report.why
    kept = canonical(X, Place(0)) if case.sparse else X
    parts = (kept.data, kept.indices, kept.indptr) if case.sparse else (kept,)
    assert int(answer["bytes"]) == sum(part.nbytes for part in parts)


def test_a_fault_is_told_and_nothing_else_shown(page):
    for field, value, told in (("rows", "0", "Rows"), ("C", "0", "C:"), ("memory", "", "Memory")):
        _fill(page, CASES[0])
        assert page.locator("#chooser-answer").is_visible()
        page.locator(f"#chooser [name={field}]").fill(value)
        assert told in page.locator("#chooser-fault").inner_text()
        assert not page.locator("#chooser-answer").is_visible()
    _fill(page, replace(SPARSE, features=10))
    assert "more stored values" in page.locator("#chooser-fault").inner_text()


def test_the_keyboard_reaches_every_field_and_the_call(page):
    _fill(page, SPARSE)
    page.locator("#chooser [name=rows]").focus()
    reached = []
    for _ in range(14):
        reached.append(page.evaluate("document.activeElement.name || document.activeElement.id"))
        page.keyboard.press("Tab")
    fields = [name for name in Case.__dataclass_fields__]
    assert reached == [*fields, "chooser-call", "chooser-copy"]

    page.locator("#chooser [name=loss]").focus()
    page.keyboard.type("hinge")
    assert page.locator("#chooser-auto").get_attribute("data-value") == "sdca"
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#chooser-copy").focus()
    page.keyboard.press("Enter")
    page.get_by_text("Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.locator("#chooser-call").inner_text()
    assert 'loss="hinge"' in copied


def test_the_page_has_its_constants():
    text = (SITE / "choose.html").read_text()
    assert "@CONSTANTS@" not in text
    assert f'"beside": {BESIDE}' in text
