"""What a cluster shows of a fit while it runs: events, a page of the dashboard, metrics."""

import time
import urllib.request

import dask.array as da
import pytest
from distributed import Client, LocalCluster

import daskglm
from daskglm.engines import monitoring
from daskglm.engines.events import TOPIC
from tests.browser import headless, opened
from tests.conftest import make_problem

X, y = make_problem(4000, 8)


def rows(chunks=1000):
    return da.from_array(X, chunks=(chunks, 8)), da.from_array(y, chunks=chunks)


def test_each_iteration_is_an_event(client):
    report = daskglm.fit(*rows(), solver="lbfgs", client=client).report_
    for _ in range(50):  # sending is not waited for
        events = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.get_events(TOPIC))
        session = events[-1][1]["session"] if events else None
        logged = [
            each
            for _, event in events
            if event["session"] == session
            for each in event["iterations"]
        ]
        if len(logged) > report.n_iter:
            break
        time.sleep(0.1)
    assert sorted(each["iteration"] for each in logged) == list(range(report.n_iter + 1))
    assert logged[-1]["objective"] == pytest.approx(report.objective)
    waiting = events[-1][1]["waiting"]
    assert set(waiting) == set(client.nthreads())
    assert all(0.0 <= share <= 1.0 for share in waiting.values())


class Scheduler:
    """One that has these events."""

    def __init__(self, *events):
        self.events = events

    def get_events(self, topic):
        assert topic == TOPIC
        return tuple(enumerate(self.events))


def event(session, *numbers, repairs=0):
    iterations = [{"iteration": number} for number in numbers]
    return {"session": session, "iterations": iterations, "repairs": repairs, "waiting": {}}


def test_events_of_a_fit_are_put_together_in_order():
    known = monitoring.fits(
        Scheduler(event("a", 0), event("b", 0, 1), event("a", 2, repairs=1), event("a", 1))
    )
    assert [fit.session for fit in known] == ["b", "a"]
    assert [each["iteration"] for each in known[-1].iterations] == [0, 1, 2]
    assert monitoring.fits(Scheduler()) == []


@pytest.fixture(scope="module")
def with_dashboard():
    pytest.importorskip("bokeh", reason="Dask's dashboard wants bokeh")
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        yield client


def address(client, path):
    return client.dashboard_link.rsplit("/", 1)[0] + path


@pytest.mark.slow
def test_prometheus_sees_a_fit_that_runs(with_dashboard):
    pytest.importorskip("prometheus_client", reason="Dask's metrics want prometheus_client")
    seen = []

    def look(record):
        time.sleep(0.3)  # as long as an iteration on many rows
        with urllib.request.urlopen(address(with_dashboard, "/metrics")) as page:
            seen.append(page.read().decode())

    report = daskglm.fit(*rows(), solver="lbfgs", client=with_dashboard, callback=look).report_
    values = [
        float(line.split()[-1])
        for text in seen
        for line in text.splitlines()
        if line.startswith("dask_daskglm_objective{fit=")
    ]
    assert len(values) >= 2
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(report.objective, rel=0.1)
    for name in monitoring.METRICS:
        assert f"dask_daskglm_{name}{{fit=" in seen[-1]
    with urllib.request.urlopen(address(with_dashboard, "/metrics")) as page:
        assert "dask_daskglm_objective{fit=" not in page.read().decode(), "the fit has ended"


@pytest.mark.nightly
def test_the_page_follows_a_fit(with_dashboard):
    daskglm.fit(*rows(), client=with_dashboard)  # adds the page
    with (
        headless() as browser,
        opened(browser, address(with_dashboard, "/daskglm"), width=1200) as page,
    ):
        page.get_by_text("has ended").wait_for(timeout=20_000)
        assert page.locator("canvas").count() >= 3

        waited = []

        def look(record):
            time.sleep(0.3)  # as long as an iteration on many rows
            if record["iteration"] == 3:
                page.get_by_text(" runs").wait_for(timeout=20_000)
                waited.append(record["iteration"])

        report = daskglm.fit(*rows(), solver="lbfgs", client=with_dashboard, callback=look).report_
        assert waited, "the page was looked at while the fit ran"
        page.get_by_text("has ended").wait_for(timeout=20_000)
        page.get_by_text(f"{report.objective:.10g}").wait_for(timeout=20_000)
        for name in ("relative gap", "passes", "rounds", "bytes", "repairs"):
            assert page.get_by_text(name, exact=False).first.is_visible()
