"""Run the Python blocks of guide pages while they are built, and show what they print and draw.

All pages run in the process of the build: a kernel for each, as notebooks have, would import the
package a score of times. `tests/test_docs.py` runs the same blocks.
"""

from __future__ import annotations

import ast
import contextlib
import html
import io
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$\n?", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"<!-- not run: [^>]+ -->\s*\Z")  # before a block, with the reason


def fill(app: Any, page: str, source: list[str]) -> None:
    """Add its output to each Python block of a page; all run in one namespace, from the top."""
    if Path(app.env.doc2path(page)).suffix != ".md":
        return
    names: dict[str, Any] = {"__name__": "__main__"}
    np.random.seed(0)

    def with_output(fence: re.Match[str]) -> str:
        if fence[1] != "python" or NOT_RUN.search(fence.string[: fence.start()]):
            return fence[0]
        try:
            return fence[0] + "".join(map(_directive, output(fence[2], names)))
        except Exception as error:
            line = fence.string.count("\n", 0, fence.start()) + 1
            raise RuntimeError(f"{page}.md, the block at line {line}: {error!r}") from error

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        source[0] = FENCE.sub(with_output, source[0])


def output(block: str, names: dict[str, Any]) -> list[tuple[str, str]]:
    """Run a block as a cell of a notebook.

    Return ("text", what it printed), and ("html", text) for its figures and the value of its last
    line, if there are any.
    """
    body = ast.parse(block).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    printed, value, others = io.StringIO(), None, _open_figures()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "<block>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<block>", "eval"), names)
    shown = [("html", _drawn(number)) for number in _open_figures() if number not in others]
    # with a figure it is its axes, and what `fit` returns is the estimator that the block names
    if value is not None and not shown and not hasattr(value, "get_params"):
        as_html = getattr(value, "_repr_html_", lambda: None)()
        shown = [("html", as_html) if as_html else ("text", repr(value))]
    return [("text", printed.getvalue()), *shown] if printed.getvalue() else shown


def _open_figures() -> list[int]:
    """Return the numbers of the open figures of matplotlib."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    return list(pyplot.get_fignums()) if pyplot else []


def _drawn(number: int) -> str:
    """Return an open figure as SVG, and close it."""
    import matplotlib.pyplot as plt

    text = io.StringIO()
    plt.figure(number).savefig(text, format="svg", metadata={"Date": None})
    plt.close(number)
    return text.getvalue()[text.getvalue().index("<svg") :]


def _directive(shown: tuple[str, str]) -> str:
    """Return an output as Markdown."""
    kind, text = shown
    if kind == "text":
        text = f'<pre tabindex="0">{html.escape(text.rstrip())}</pre>'
    return f'\n````{{raw}} html\n<div class="daskglm-output">\n{text}\n</div>\n````\n'
