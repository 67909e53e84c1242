"""The table of goals: daskglm-auto beside the best peer on each problem of the suite `peers`, made
of recorded runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.reports.outcomes import (
    Record,
    Setting,
    best_known,
    grouped,
    place,
    settings,
    succeeded,
    time_to,
)
from benchmarks.reports.tabular import table
from benchmarks.suites.definitions import GOAL_AUTO, GOAL_MEMORY, GOAL_TARGETS, GOALS, SINGLE, Goal

AUTO = "daskglm-auto"
ABOUT = f"""\
Seconds to a relative suboptimality of {GOAL_TARGETS[0]:g} and {GOAL_TARGETS[1]:g}: the least median
over the tolerances that reach it in every repeat; "-": none did. *Ratio*: the fastest peer's
seconds over those of {AUTO}; at {GOAL_TARGETS[0]:g} the goal is 1: never slower than any peer.
*auto / best*: {AUTO} over the fastest of {
    ", ".join(name.removeprefix("daskglm-") for name in SINGLE)
} (goal: at most {GOAL_AUTO:g}). *Memory*: the peak of {AUTO}'s fit beyond what was resident
with the data loaded, over the size of the data (goal: at most {GOAL_MEMORY:.0%})."""


def page(records: Sequence[Record]) -> list[str]:
    """Return paragraphs of Markdown, with a pair of tables for each machine.

    There are none if no run is of a goal's problem.
    """
    wanted = [
        record for record in records if record["kind"] == "reference" or record["status"] == "ok"
    ]
    wanted = [record for record in wanted if _goal_of(record)]
    parts = []
    for where, some in grouped(succeeded(wanted), place).items():
        found = {}
        for goal in GOALS:
            runs = [run for run in some if _goal_of(run) == goal]
            best = best_known([record for record in wanted if _goal_of(record) == goal])
            found[goal] = settings(runs, best)
        parts += [f"## Goals ({where})", ABOUT, _goals(found), _contestants(found)]
    return parts


def _goal_of(record: Record) -> Goal | None:
    """Return the goal of a record's problem: the whole set, logistic, without intercept."""
    plain = record["rows"] is None and record["loss"] == "logistic" and not record["fit_intercept"]
    plain = plain and record["seed"] == 0 and record["dtype"] is None
    return next(
        (goal for goal in GOALS if plain and (goal.data, goal.C) == (record["data"], record["C"])),
        None,
    )


def _name(goal: Goal) -> str:
    return f"{goal.data}, C = {goal.C:g}"


def _goals(found: dict[Goal, list[Setting]]) -> str:
    head = ["problem"]
    for target in GOAL_TARGETS:
        head += [f"{AUTO} {target:.0e}", "best peer", "ratio", "goal"]
    head += ["auto / best", "memory", "met"]
    return table(head, [_line(goal, some) for goal, some in found.items()])


def _line(goal: Goal, found: Sequence[Setting]) -> list[str]:
    """Return a row of the table; an unknown cell is a goal not met."""
    if not found:
        return [_name(goal), *[""] * 10, "not run"]
    cells, met = [_name(goal)], []
    for target, wanted in zip(GOAL_TARGETS, (1.0, goal.ratio), strict=True):
        fastest = time_to(found, target)
        auto = fastest.get(AUTO)
        peer = min(
            (s for s in fastest.values() if not s.ours), key=lambda s: s.median, default=None
        )
        ratio = peer.median / auto.median if peer and auto else None
        met.append(ratio is not None and ratio >= wanted)
        cells += [
            _seconds(auto),
            f"{peer.contestant} {_seconds(peer)}" if peer else "-",
            _number(ratio),
            f"{wanted:g}",
        ]
    singles = [fastest[name].median for name in SINGLE if name in fastest]
    beside = auto.median / min(singles) if auto and singles else None
    extra, size = (auto.beyond_data_mb, auto.first["data_mb"]) if auto else (None, None)
    share = extra / size if extra is not None and size else None
    met += [beside is not None and beside <= GOAL_AUTO, share is not None and share <= GOAL_MEMORY]
    words = ["1e-3", "1e-6", "auto", "memory"]
    missed = [word for word, good in zip(words, met, strict=True) if not good]
    memory = "-" if share is None else f"{share:.0%}"
    return [*cells, _number(beside), memory, "yes" if not missed else f"not {', '.join(missed)}"]


def _contestants(found: dict[Goal, list[Setting]]) -> str:
    """Return every contestant by problem: seconds to both targets."""
    columns = {
        goal: [time_to(some, target) for target in GOAL_TARGETS] for goal, some in found.items()
    }
    ours = {setting.contestant: setting.ours for some in found.values() for setting in some}
    names = sorted(ours, key=lambda name: (not ours[name], name))
    rows = []
    for name in names:
        cells = []
        for goal, fastest in columns.items():
            run = any(s.contestant == name for s in found[goal])
            cells.append(
                " / ".join(_seconds(column.get(name)) for column in fastest) if run else ""
            )
        rows.append([name, *cells])
    return table(["contestant", *map(_name, columns)], rows)


def _seconds(setting: Setting | None) -> str:
    return "-" if setting is None else f"{setting.median:.3g}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
