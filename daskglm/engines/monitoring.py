"""What a scheduler shows of the fits that run: a page beside Dask's dashboard, and metrics.

Fits log their iterations as events of Dask, under one topic; the scheduler keeps the last of them
(`distributed.admin.low-level-log-length`). The page is served where the dashboard is, at /daskglm;
the metrics are among Dask's own for Prometheus, at /metrics.
"""

from __future__ import annotations

import html
import importlib.util
import math
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

from daskglm.engines.events import TOPIC
from daskglm.engines.presence import register, running_sessions

# Milliseconds between two looks of an open page, and pixels of the height of its plots.
REFRESH, HEIGHT = 500, 270

# Metrics by name: field of an iteration, and what it is.
METRICS = {
    "objective": "Objective at the last iteration of a fit that runs",
    "relative_gap": "Bound on (objective - optimum) / optimum at that iteration",
    "passes": "Passes over the rows so far",
    "rounds": "Requests answered by all workers so far",
    "bytes": "Bytes that workers sent so far",
    "seconds": "Seconds since the solve began",
}

_metrics_of: weakref.WeakSet[Any] = weakref.WeakSet()
_pages_of: weakref.WeakSet[Any] = weakref.WeakSet()


class Fit(NamedTuple):
    """What is known of one fit.

    Attributes
    ----------
    session : str
    iterations : list of dict
        In order, see `daskglm.core.outcome.Iteration`.
    repairs : int
    waiting : dict of str to float
        Share of the time that each worker did not work on requests, by address.
    """

    session: str
    iterations: list[dict[str, Any]]
    repairs: int
    waiting: dict[str, float]


def list_and_show(session: str, client: str, dask_scheduler: Any = None) -> None:
    """On the scheduler: list the session of a client, and show it with all others."""
    register(session, client, dask_scheduler)
    show(dask_scheduler)


def show(dask_scheduler: Any) -> None:
    """Add the page and the metrics, once each, where their libraries are."""
    if dask_scheduler not in _metrics_of and importlib.util.find_spec("prometheus_client"):
        if not _metrics_of:
            _register_collector()
        _metrics_of.add(dask_scheduler)
    if dask_scheduler not in _pages_of:
        # the application of Dask's own pages, which bokeh serves
        served = getattr(dask_scheduler, "http_application", None)
        for application in list(getattr(served, "applications", ())):
            if hasattr(application, "app_paths"):
                _add_page(dask_scheduler, application.prefix)
                _pages_of.add(dask_scheduler)
                break


def fits(scheduler: Any) -> list[Fit]:
    """Return the fits whose events the scheduler has, the last to log one last."""
    found: dict[str, Fit] = {}
    for _, event in scheduler.get_events(TOPIC):
        session = event["session"]
        # the last to log one goes to the end
        before = found.pop(session, None)
        iterations = [*(before.iterations if before else []), *event["iterations"]]
        found[session] = Fit(session, iterations, event["repairs"], event["waiting"])
    return [
        fit._replace(iterations=sorted(fit.iterations, key=lambda record: record["iteration"]))
        for fit in found.values()
    ]


# ---- metrics
class _Collector:
    """Gauges of the fits that run, for all schedulers of this process."""

    def collect(self) -> Iterator[Any]:
        from distributed.http.prometheus import PrometheusCollector
        from prometheus_client.core import GaugeMetricFamily

        for scheduler in list(_metrics_of):
            names = PrometheusCollector(scheduler)
            names.subsystem = TOPIC
            running = set(running_sessions(scheduler))
            shown = [fit for fit in fits(scheduler) if fit.session in running and fit.iterations]
            for field, text in METRICS.items():
                family = GaugeMetricFamily(names.build_name(field), text, labels=["fit"])
                for fit in shown:
                    family.add_metric([fit.session], fit.iterations[-1][field])
                yield family
            family = GaugeMetricFamily(
                names.build_name("repairs"), "Times that lost blocks were restored", labels=["fit"]
            )
            for fit in shown:
                family.add_metric([fit.session], fit.repairs)
            yield family


def _register_collector() -> None:
    import prometheus_client

    prometheus_client.REGISTRY.register(_Collector())


# ---- the page
def _add_page(scheduler: Any, prefix: str) -> None:
    from distributed.dashboard.core import BokehApplication
    from tornado.ioloop import IOLoop

    application = BokehApplication({f"/{TOPIC}": page}, scheduler, prefix=prefix)
    scheduler.http_application.add_application(application)
    application.initialize(IOLoop.current())
    application.start()


def page(scheduler: Any, template_variables: Any, document: Any) -> None:
    """Make one opened page: the last fit's curves, counters, and waiting of its workers."""
    from bokeh.layouts import column, row
    from bokeh.models import ColumnDataSource, FactorRange, NumeralTickFormatter, Range1d
    from bokeh.models.widgets import Div
    from bokeh.plotting import figure

    curves = ColumnDataSource({"seconds": [], "objective": [], "relative_gap": []})
    workers = ColumnDataSource({"worker": [], "share": []})
    counters = Div(text="no fit has run on this cluster yet", sizing_mode="stretch_width")

    gap = figure(title="proved gap", y_axis_type="log")
    objective = figure(title="objective")
    names = FactorRange(factors=[])
    waiting = figure(
        title="waiting, by worker (share of the time)",
        x_range=Range1d(start=0, end=1),
        y_range=names,
    )
    for plot, field in ((gap, "relative_gap"), (objective, "objective")):
        plot.xaxis.axis_label = "seconds"
        plot.line("seconds", field, source=curves)
        plot.scatter("seconds", field, source=curves, size=4)
    for plot in (gap, objective, waiting):
        plot.height = HEIGHT
        plot.sizing_mode = "stretch_width"
    waiting.hbar(y="worker", right="share", height=0.7, source=workers)
    waiting.xaxis.formatter = NumeralTickFormatter(format="0%")

    def update() -> None:
        known = fits(scheduler)
        if not known:
            return
        fit = known[-1]
        gaps = [record["relative_gap"] for record in fit.iterations]
        curves.data = {
            "seconds": [record["seconds"] for record in fit.iterations],
            "objective": [record["objective"] for record in fit.iterations],
            # an infinite bound has no place on an axis
            "relative_gap": [each if math.isfinite(each) else math.nan for each in gaps],
        }
        names.factors = list(fit.waiting)
        workers.data = {"worker": list(fit.waiting), "share": list(fit.waiting.values())}
        runs = fit.session in running_sessions(scheduler)
        counters.text = _counters(fit, runs=runs)

    update()
    document.add_periodic_callback(update, REFRESH)
    document.title = "daskglm"
    both = row(gap, objective, sizing_mode="stretch_width")
    document.add_root(column(counters, both, waiting, sizing_mode="stretch_width"))


def _counters(fit: Fit, *, runs: bool) -> str:
    """Return the numbers of the last iteration as HTML."""
    state = "runs" if runs else "has ended"
    if not fit.iterations:
        return f"fit {fit.session[:8]} {state}"
    last = fit.iterations[-1]
    numbers = {
        "iteration": f"{last['iteration']}",
        "objective": f"{last['objective']:.10g}",
        "relative gap": f"{last['relative_gap']:.2e}",
        "passes": f"{last['passes']:.4g}",
        "rounds": f"{last['rounds']:,}",
        "bytes": f"{last['bytes']:,}",
        "repairs": f"{fit.repairs}",
        "seconds": f"{last['seconds']:.2f}",
    }
    cells = "".join(
        f"<span style='margin-right:2em'>{name} <b>{html.escape(text)}</b></span>"
        for name, text in numbers.items()
    )
    return f"<p>fit {html.escape(fit.session[:8])} {state}</p><p>{cells}</p>"
