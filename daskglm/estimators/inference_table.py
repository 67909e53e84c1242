"""The summary of an inference: facts, and a row for each coefficient, as text and as HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

# Characters between columns.
GAP = 2
STYLE = (
    "table.daskglm-inference td,table.daskglm-inference th{text-align:right;padding:2px 10px}"
    "table.daskglm-inference th{font-weight:600}"
    "table.daskglm-inference td:first-child{text-align:left}"
)


@dataclass(frozen=True)
class Summary:
    """A table that prints as text, and shows as HTML in notebooks.

    Parameters
    ----------
    title : str
    facts : sequence of (name, text)
    header : sequence of str
        Names of the columns after the first.
    rows : sequence of (name, texts)
    notes : sequence of str
        Sentences below the table.
    """

    title: str
    facts: Sequence[tuple[str, str]]
    header: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        table = [["", *self.header], *([name, *texts] for name, texts in self.rows)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [_line(cells, widths) for cells in table]
        rule = "-" * max(map(len, lines))
        facts = [_fact(fact, self.facts) for fact in self.facts]
        return "\n".join([self.title, *facts, rule, lines[0], rule, *lines[1:], rule, *self.notes])

    def __repr__(self) -> str:
        return str(self)

    def as_text(self) -> str:
        """Return the table as text, as statsmodels' summaries do."""
        return str(self)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in ("", *self.header))
        body = "\n".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in (name, *texts)) + "</tr>"
            for name, texts in self.rows
        )
        facts = "; ".join(f"{name}: {text}" for name, text in self.facts)
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return (
            f"<style>{STYLE}</style>\n<p><b>{html.escape(self.title)}</b><br>{html.escape(facts)}"
            f'</p>\n<table class="daskglm-inference"><thead><tr>{head}</tr></thead>\n'
            f"<tbody>\n{body}\n</tbody></table>{notes}"
        )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first = cells[0].ljust(widths[0])
    others = (cell.rjust(width + GAP) for cell, width in zip(cells[1:], widths[1:], strict=True))
    return first + "".join(others)


def _fact(fact: tuple[str, str], facts: Sequence[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in facts)
    return f"{fact[0].ljust(width)}  {fact[1]}"
