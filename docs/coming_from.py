"""Write the tables of coming-from.md from coming_from.toml while the pages are built."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "coming_from.toml"


def table(rival: str) -> str:
    """Return the table of a package in Markdown."""
    rows = tomllib.loads(DATA.read_text(encoding="utf-8"))[rival]["rows"]
    lines = ["| there | here | |", "|---|---|---|"]
    for theirs, ours, note in rows:
        here = f"`{ours}`" if ours else "-"
        lines.append(f"| `{theirs}` | {here} | {note} |")
    return "\n".join(lines)


def fill(app: Any, page: str, source: list[str]) -> None:
    """Replace each line `{{ table NAME }}` of the page."""
    if page == "coming-from":
        source[0] = re.sub(r"\{\{ table (.+?) \}\}", lambda found: table(found[1]), source[0])
