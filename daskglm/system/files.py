"""Files that other processes read while they are written, and where files may be."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


def file_system(path: str) -> tuple[AbstractFileSystem, str]:
    """Return the file system of a path or URL that fsspec knows, and the path in it."""
    import fsspec

    filesystem, inside = fsspec.url_to_fs(path)
    return filesystem, inside


def replace_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: readers see the old content or the new.

    Raises OSError where it cannot be written; then nothing is left beside it.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
