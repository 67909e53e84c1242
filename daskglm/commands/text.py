"""Text that a terminal is shown."""

from __future__ import annotations

import re

import click

# What errors say of arguments of Python, and the options that are the same.
_OF_SCHEMA = re.compile(r"schema=\{'(missing|unseen)': '(\w+)'\}")
OPTIONS = {
    "name it in numeric, or in categories": "name it in --numeric, or in --categories",
    "name it in categories": "name it in --categories",
    "Drop it;": "--drop it;",
    "regressors and loss='squared'": "--loss squared and --family",
}
# Names in what is shown line up: this is the longest one of a report.
WIDTH = len("gradient ratio")


def show(lines: list[str]) -> None:
    """Show lines, with control characters escaped."""
    click.echo("\n".join(map(visible, lines)))


def one_line(error: BaseException) -> str:
    """Return an error as one line, with its type where it does not say enough."""
    text = " ".join(str(error).split())
    if not text:
        text = f"{type(error).__name__}, without a reason; daskglm -v shows where"
    elif isinstance(error, KeyError):
        text = f"{type(error).__name__}: {text}"
    text = _OF_SCHEMA.sub(r"--\1 \2", text)
    for argument, option in OPTIONS.items():
        text = text.replace(argument, option)
    return visible(text)


def visible(text: str) -> str:
    """Return text with control characters escaped: a terminal could take them for commands."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
