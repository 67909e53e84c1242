"""Results as lines of JSON, each on disk as soon as it is known."""

from __future__ import annotations

import json
import time
import traceback
from pathlib import Path
from typing import Any

import click

ERROR_CHARACTERS = 1500  # of a traceback's end


class Lines:
    """Appends to a file, and prints, one line for each result.

    Parameters
    ----------
    path : Path
        Its folder is made where it is missing; lines that are there stay.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.began = path, time.monotonic()
        path.parent.mkdir(parents=True, exist_ok=True)

    def add(self, stage: str, **found: Any) -> None:
        """Write what a stage found, with the seconds since the program began."""
        line = {"t": round(time.monotonic() - self.began, 1), "stage": stage, **found}
        text = json.dumps(
            line, default=lambda value: value.item() if hasattr(value, "item") else str(value)
        )
        with self.path.open("a") as file:
            file.write(text + "\n")
        click.echo(text)

    def failed(self, stage: str, **which: Any) -> None:
        """Write the error that is being handled; `which` names what failed."""
        self.add(stage, **which, error=traceback.format_exc()[-ERROR_CHARACTERS:])
