"""pytest plugin: CPU seconds of the tests by kind, and the tests that take most of them.

Wall time says little where other programs run beside the tests. What a test uses here are seconds of
processors in its own process and in those that it has started: workers, compilers, commands.
"""

import os
from collections import defaultdict
from pathlib import Path

import pytest

LONG = 2.0  # CPU seconds from which a default test is named
MOST = 40  # tests that are named
TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def spent() -> tuple[float, float]:
    """CPU seconds of this process, and of those that it has started: that have ended, and that run."""
    own = os.times()
    children = own.children_user + own.children_system
    return own.user + own.system, children + sum(map(_with_descendants, _children("self")))


def _children(process) -> list[int]:
    """Processes started by a process; none where the system does not list them."""
    found = []
    try:
        for task in Path(f"/proc/{process}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    except OSError:  # it has ended, or this is not Linux
        pass
    return found


def _with_descendants(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICK + sum(map(_with_descendants, _children(process)))


def kind_of(item) -> str:
    """What a test's time is spent on, as told by what it asks for."""
    asked = set(item.fixturenames)
    if "cupy" in asked:
        return "stand-in for CUDA"
    if asked & {"client", "_cluster"} or hasattr(item.module, "LocalCluster"):
        return "clusters"
    if "real_set" in asked:
        return "real data sets"
    if "/launch/" in item.nodeid or hasattr(item.module, "subprocess"):
        return "other processes"
    return "in process"


class Meter:
    """What each test spends, in the process that runs it: read once a test, for it takes milliseconds."""

    def __init__(self):
        self.before = spent()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        """Note down what was spent since the last test was torn down."""
        if call.when == "teardown":
            now, before = spent(), self.before
            item.user_properties.append(("kind", kind_of(item)))
            item.user_properties.append(("own", now[0] - before[0]))
            # a child that ended is counted with its own children: never less than nothing
            item.user_properties.append(("children", max(now[1] - before[1], 0.0)))
            self.before = now
        return (yield)


class Totals:
    """What the reports of all tests say, in the process that collects them."""

    def __init__(self):
        self.kinds = defaultdict(lambda: [0, 0.0, 0.0])
        self.tests = []

    def pytest_runtest_logreport(self, report):
        """Count a test once it is torn down."""
        if report.when != "teardown":
            return
        told = dict(report.user_properties)
        total = self.kinds[told["kind"]]
        total[0] += 1
        total[1] += told["own"]
        total[2] += told["children"]
        self.tests.append((told["own"] + told["children"], report.nodeid))

    def pytest_terminal_summary(self, terminalreporter):
        """Print the tables."""
        terminalreporter.section("CPU seconds by kind")
        terminalreporter.line(f"{'kind':<20}{'tests':>8}{'own':>8}{'children':>10}")
        for kind, (count, own, children) in sorted(
            self.kinds.items(), key=lambda entry: -sum(entry[1][1:])
        ):
            terminalreporter.line(f"{kind:<20}{count:>8}{own:>8.0f}{children:>10.0f}")
        long = sorted((test for test in self.tests if test[0] > LONG), reverse=True)
        terminalreporter.line(
            f"{len(long)} tests above {LONG:g} s take {sum(t for t, _ in long):.0f} of "
            f"{sum(t for t, _ in self.tests):.0f} s; those with most:"
        )
        for seconds, name in long[:MOST]:
            terminalreporter.line(f"{seconds:6.1f} {name}")
        if path := os.environ.get("CPU_SECONDS"):
            lines = [f"{seconds:.3f}\t{name}\n" for seconds, name in sorted(self.tests)]
            Path(path).write_text("".join(lines))


def pytest_collection_finish(session):
    session.config.pluginmanager.register(Meter())


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Totals())
