"""The file of a checkpoint: one in its folder, which may be any URL that fsspec knows.

A new state replaces the old one at once, so that there is always one whole state.
"""

from __future__ import annotations

import posixpath
import re
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from daskglm.system.files import file_system

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

STATE = "state.npz"
# Files of a fit that was killed while it wrote.
LEFT_OVER = re.compile(r"\.state\.npz-[0-9a-f]{32}")

T = TypeVar("T")


def prepare(path: Any) -> str:
    """Make the folder of a checkpoint, before any work, and remove what a killed fit left there.

    Raises OSError where that is not possible, and ValueError where something else has the name of
    its file.
    """
    filesystem, inside = file_system(str(path))
    filesystem.makedirs(inside, exist_ok=True)
    _check_file(filesystem, posixpath.join(inside, STATE), f"checkpoint={str(path)!r}")
    probe = posixpath.join(inside, f".probe-{uuid.uuid4().hex}")
    filesystem.pipe_file(probe, b"")
    filesystem.rm_file(probe)
    # only `write` to a disk leaves any, and object stores have no folder without a file to list
    if _on_disk(filesystem):
        for found in filesystem.ls(inside, detail=False):
            if LEFT_OVER.fullmatch(posixpath.basename(found)):
                filesystem.rm_file(found)
    return str(path)


def exists(path: Any) -> bool:
    """Return whether there is a state in a folder."""
    filesystem, inside = file_system(str(path))
    return bool(filesystem.exists(posixpath.join(inside, STATE)))


def _on_disk(filesystem: AbstractFileSystem) -> bool:
    from fsspec.implementations.local import LocalFileSystem

    return isinstance(filesystem, LocalFileSystem)


def _check_file(filesystem: AbstractFileSystem, name: str, what: str) -> bool:
    """Return whether there is a file of that name.

    Raises ValueError if it is a folder, a pipe or a device.
    """
    if not filesystem.exists(name):
        return False
    if filesystem.info(name)["type"] != "file":
        raise ValueError(
            f"{what}: {STATE} in it is a folder, a pipe or a device, not a file; "
            "give another folder"
        )
    return True


def read(path: Any, parse: Callable[[bytes], T]) -> T:
    """Return what `parse` makes of the state in a folder.

    Raises
    ------
    FileNotFoundError
        Where there is none.
    ValueError
        Where it is none that `parse` takes, or damaged.
    """
    filesystem, inside = file_system(str(path))
    name = posixpath.join(inside, STATE)
    if not _check_file(filesystem, name, f"resume={str(path)!r}"):
        raise FileNotFoundError(f"resume={str(path)!r}: there is no checkpoint ({STATE}) in it")
    try:
        return parse(filesystem.cat_file(name))
    except Exception as error:  # whatever a damaged file makes of zip, NumPy or JSON
        raise ValueError(
            f"{path} is not a checkpoint of this version of daskglm, or damaged: {error}"
        ) from error


def write(folder: str, content: bytes) -> None:
    """Replace the state in a folder at once: on a disk by renaming its file.

    Object stores show a file only when it is complete.
    """
    filesystem, inside = file_system(folder)
    target = posixpath.join(inside, STATE)
    if _on_disk(filesystem):
        temporary = posixpath.join(inside, f".{STATE}-{uuid.uuid4().hex}")
        filesystem.pipe_file(temporary, content)
        filesystem.mv(temporary, target)
    else:
        filesystem.pipe_file(target, content)
