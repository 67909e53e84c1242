"""A number for each row as files of a checkpoint: one for each partition of the data, or run of
rows of an array.

Workers write and read them, so the folder has to be one that all of them see: a shared file system,
or a URL that fsspec knows. Called by `ascent` only.
"""

from __future__ import annotations

import io
import posixpath
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from daskglm.data import npz
from daskglm.system.files import file_system

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

# partition (-1: rows in memory, cut anywhere), first row in it, number of rows
Span = tuple[int, int, int]
NAME = re.compile(r"(-?\d+)_(\d+)_(\d+)\.npy")


def write(folder: str, spans: Sequence[Span], values: np.ndarray) -> None:
    """Write the numbers of rows that make up the spans, in order."""
    filesystem, path = file_system(folder)
    filesystem.makedirs(path, exist_ok=True)
    start = 0
    for partition, first, rows in spans:
        buffer = io.BytesIO()
        np.save(buffer, np.ascontiguousarray(values[start : start + rows]), allow_pickle=False)
        filesystem.pipe_file(
            posixpath.join(path, f"{partition}_{first}_{rows}.npy"), buffer.getvalue()
        )
        start += rows


def read(folder: str, spans: Sequence[Span]) -> np.ndarray:
    """Read the numbers of rows that make up the spans, in order.

    Raises
    ------
    FileNotFoundError
        Where files are missing: the folder is not one that all workers see, or the rows were cut
        differently.
    ValueError
        Where a file is damaged, or has numbers that are not finite.
    """
    filesystem, path = file_system(folder)
    there: dict[int, list[Span]] = {}
    for name in filesystem.ls(path, detail=False) if filesystem.exists(path) else []:
        if found := NAME.fullmatch(posixpath.basename(name)):
            span = (int(found[1]), int(found[2]), int(found[3]))
            there.setdefault(span[0], []).append(span)
    values = np.empty(sum(rows for _, _, rows in spans))
    start = 0
    for wanted in spans:
        values[start : start + wanted[2]] = _read(
            filesystem, path, wanted, sorted(there.get(wanted[0], []))
        )
        start += wanted[2]
    return values


def _read(filesystem: AbstractFileSystem, path: str, wanted: Span, there: list[Span]) -> np.ndarray:
    partition, first, rows = wanted
    if partition >= 0:
        there = [span for span in there if span == wanted]
    values, found = np.empty(rows), 0
    for span in there:
        low = max(first, span[1])
        high = min(first + rows, span[1] + span[2])
        if low < high:
            name = posixpath.join(path, "{}_{}_{}.npy".format(*span))
            part = _part(filesystem, name, span[2])
            values[low - first : high - first] = part[low - span[1] : high - span[1]]
            found += high - low
    if found != rows:
        if partition >= 0:
            whose = f"partition {partition}"
        else:
            whose = f"rows {first:,} to {first + rows - 1:,}"
        raise FileNotFoundError(
            f"the checkpoint {path} has no dual variables for {whose} with {rows:,} rows: either "
            "not all workers see that folder, or the data were cut into other partitions"
        )
    return values


def _part(filesystem: AbstractFileSystem, name: str, rows: int) -> np.ndarray:
    try:
        part = npz.array(filesystem.cat_file(name))
    except ValueError as error:
        raise ValueError(f"{name} of the checkpoint is damaged: {error}") from error
    if part.shape != (rows,) or part.dtype != np.float64 or not np.isfinite(part).all():
        raise ValueError(
            f"{name} of the checkpoint is damaged: it has {part.dtype} numbers of shape "
            f"{part.shape}, or some that are not finite, where {rows} dual variables belong"
        )
    return part
