"""Reading files in the svmlight (LIBSVM) format, in parallel and in pieces of a file."""

from __future__ import annotations

import io
import lzma
import math
import os
import uuid
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import getitem
from pathlib import PurePath
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

from daskglm.core.arguments import check_whole

COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz"}

# What scikit-learn's reader raises for a line that it cannot read.
_ERRORS = (ValueError, OverflowError)


@dataclass(frozen=True)
class _Range:
    """Bytes `start` to `end` of a file: the lines that start there.

    `end` is None for a file that is read in one piece.
    """

    fs: Any
    path: str
    start: int = 0
    end: int | None = None

    def read(self) -> bytes:
        if self.end is None:
            compression = COMPRESSED.get(os.path.splitext(self.path)[1].lower())
            try:
                with self.fs.open(self.path, "rb", compression=compression) as file:
                    return file.read()
            except FileNotFoundError:
                raise
            except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
                raise ValueError(
                    f"{self.path} is damaged, or not packed as its name says: {error}"
                ) from error
        if self.end <= self.start:
            return b""
        with self.fs.open(self.path, "rb") as file:
            # one byte before the range tells whether a line starts with its first byte
            before = 1 if self.start else 0
            file.seek(self.start - before)
            data = file.read(self.end - self.start + before)
            if before:
                newline = data.find(b"\n")
                data = data[newline + 1 :] if newline >= 0 else b""
            if data and not data.endswith(b"\n"):
                data += file.readline()
            return data

    def lines_before(self) -> int:
        """Count the lines that start before this range; only for error messages."""
        if self.end is None or not self.start:
            return 0
        lines, left, last = 0, self.start, b"\n"
        with self.fs.open(self.path, "rb") as file:
            while left and (data := file.read(min(left, 1 << 24))):
                lines = lines + data.count(b"\n")
                left = left - len(data)
                last = data[-1:]
        return lines + (last != b"\n")


def read_svmlight(
    path: str | os.PathLike | Sequence[str | os.PathLike],
    *,
    blocksize: int | str | None = "64MiB",
    n_features: int | None = None,
    dtype: Any = "float64",
    zero_based: bool | str = "auto",
    storage_options: dict[str, Any] | None = None,
) -> tuple[Any, Any]:
    r"""Read svmlight files as dask arrays.

    Files that are not compressed are cut into ranges of bytes, each read by a task of its own;
    files that end in .gz, .bz2 or .xz are one chunk each.

    Parameters
    ----------
    path : str, path, or list of them
        Files, globs, or anything that fsspec opens ("s3://bucket/part-*.svm").
    blocksize : int or str or None, default "64MiB"
        About how many bytes of text make a chunk; None: one chunk for each file.
    n_features : int, optional
        Number of columns. Default: the largest index found, which takes one more parallel pass over
        the files (and makes the lengths of chunks known).
    dtype : {"float64", "float32"}, default "float64"
        Of the values of X.
    zero_based : bool or "auto", default "auto"
        Whether indices count from 0. "auto" takes a pass too: they do if an index 0 occurs in any
        of the files.
    storage_options : dict, optional
        Arguments of the fsspec file system.

    Returns
    -------
    X : dask array of scipy.sparse.csr_matrix chunks, (n, n_features)
        `compute`, `persist`, `map_blocks`, `blocks`, `T`, `astype` and products with a number work,
        and where lengths are known also slices and `rechunk`; `X @ w` and `X.sum()` do not, as dask
        has them for dense chunks only: ``X.map_blocks(lambda block: block @ w, dtype=X.dtype,
        drop_axis=1, meta=np.empty(0))``.
    y : dask array of float64, (n,)
        In the same chunks. Lengths are nan without a pass; ranges in which no line starts are
        chunks without rows.

    Raises
    ------
    FileNotFoundError
        Where a path matches no file.
    ValueError
        For empty files and for lines that cannot be read, with file, line number and content;
        without a pass, the latter shows when chunks are computed.

    Examples
    --------
    >>> from pathlib import Path
    >>> import daskglm
    >>> Path("train-0.svm").write_text("1 1:0.5 3:2\n-1 2:1\n")
    19
    >>> X, y = daskglm.read_svmlight("train-*.svm", n_features=3)
    >>> X.compute().toarray()
    array([[0.5, 0. , 2. ],
           [0. , 1. , 0. ]])
    """
    dtype = np.dtype(dtype)
    if dtype not in (np.dtype("float32"), np.dtype("float64")):
        raise ValueError(f"dtype={dtype.name!r} is not one of 'float32', 'float64'")
    if not isinstance(zero_based, (bool, np.bool_)) and zero_based != "auto":
        raise ValueError(f"zero_based={zero_based!r} is not one of True, False, 'auto'")
    check_whole(n_features, "n_features", 1, optional=True)
    ranges = _ranges(path, blocksize, storage_options or {})
    rows: list[float] = [math.nan] * len(ranges)
    if n_features is None or zero_based == "auto":
        rows, n_features, zero_based = _survey(ranges, n_features, zero_based, dtype)
        if not sum(rows):
            raise ValueError(f"{_shown(path)}: the files have no rows")
    return _arrays(ranges, rows, int(n_features), bool(zero_based), dtype)


def _survey(
    ranges: list[_Range], n_features: int | None, zero_based: bool | str, dtype: np.dtype
) -> tuple[list[float], int, bool]:
    """Read the text once, in parallel: rows of each range, number of columns, first index."""
    import dask

    scan = dask.delayed(_scan)
    found = dask.compute(*(scan(part, zero_based is not False) for part in ranges))
    if zero_based == "auto":
        zero_based = min(low for _, low, _ in found) == 0
    # indices are counted as written, so the largest one-based index is the number of columns
    widths = [high + (1 if zero_based else 0) for _, _, high in found]
    if n_features is None:
        n_features = max(1, *widths)
    # fail here rather than when chunks are computed: the reader names the line
    elif max(widths) > n_features:
        culprit = next(
            part for part, width in zip(ranges, widths, strict=True) if width > n_features
        )
        dask.compute(dask.delayed(_read)(culprit, int(n_features), bool(zero_based), dtype))
    return [count for count, _, _ in found], int(n_features), bool(zero_based)


def _arrays(
    ranges: list[_Range], rows: list[float], n_features: int, zero_based: bool, dtype: np.dtype
) -> tuple[Any, Any]:
    """Lazy X and y; a chunk of each comes from one task, so that text is parsed once."""
    import dask.array as da
    from dask.highlevelgraph import HighLevelGraph

    token = uuid.uuid4().hex  # not of the arguments: a file may have changed since
    read, X, y = (f"{name}-{token}" for name in ("read-svmlight", "svmlight-X", "svmlight-y"))
    source = {
        (read, i): (_read, part, n_features, zero_based, dtype) for i, part in enumerate(ranges)
    }
    # that the positions 0 and 1 are nodes of the graph keeps dask from fusing `getitem` with
    # `_read`: else X and y would each get a copy of `_read` when they are turned into delayed
    # blocks one after the other, as fits do
    pick_X = {f"{X}-at": 0} | {
        (X, i, 0): (getitem, (read, i), f"{X}-at") for i in range(len(ranges))
    }
    pick_y = {f"{y}-at": 1} | {(y, i): (getitem, (read, i), f"{y}-at") for i in range(len(ranges))}
    needs: dict[str, set[str]] = {read: set()}
    graph_X = HighLevelGraph({read: source, X: pick_X}, needs | {X: {read}})
    graph_y = HighLevelGraph({read: source, y: pick_y}, needs | {y: {read}})
    return (
        da.Array(graph_X, X, (tuple(rows), (n_features,)), meta=sp.csr_matrix((0, 0), dtype=dtype)),
        da.Array(graph_y, y, (tuple(rows),), meta=np.empty(0)),
    )


# ---- files to ranges
def _ranges(
    path: Any, blocksize: int | str | None, storage_options: dict[str, Any]
) -> list[_Range]:
    from dask.utils import parse_bytes
    from fsspec.core import url_to_fs

    size_wanted = None if blocksize is None else int(parse_bytes(blocksize))
    if size_wanted is not None and size_wanted < 1:
        raise ValueError(f"blocksize={blocksize!r} must be at least one byte")
    patterns = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    if not patterns:
        raise ValueError("path is an empty list: there is nothing to read")
    ranges, empty = [], True
    for pattern in (os.fspath(each) for each in patterns):
        fs, inner = url_to_fs(pattern, **storage_options)
        for name, size in _files(fs, inner, pattern):
            empty = empty and size == 0
            ranges += _cut(fs, name, size, size_wanted)
    if empty:
        raise ValueError(f"{_shown(path)}: the files are empty")
    return ranges


def _files(fs: Any, inner: str, pattern: str) -> list[tuple[str, int | None]]:
    """Return names and sizes (None: unknown) of the files that a pattern matches, in order."""
    if fs.exists(inner):  # also a name that happens to have glob characters
        names = [inner]
    elif any(c in inner for c in "*?["):
        names = sorted(name for name in fs.glob(inner) if not fs.isdir(name))
    else:
        names = []
    if not names:
        raise FileNotFoundError(f"no file matches {pattern!r}")
    if fs.isdir(names[0]):
        raise ValueError(
            f"{pattern!r} is a folder; give its files, e.g. {str(PurePath(pattern) / '*.svm')!r}"
        )
    return [(name, fs.info(name).get("size")) for name in names]


def _cut(fs: Any, name: str, size: int | None, wanted: int | None) -> list[_Range]:
    """Ranges of about equal size; what cannot be entered in the middle stays whole."""
    if size is None or os.path.splitext(name)[1].lower() in COMPRESSED:
        return [_Range(fs, name)]
    pieces = 1 if wanted is None else max(1, -(-size // wanted))
    cuts = [size * i // pieces for i in range(pieces + 1)]
    return [_Range(fs, name, lo, hi) for lo, hi in pairwise(cuts)]


def _shown(path: Any) -> str:
    if isinstance(path, (str, os.PathLike)):
        return os.fspath(path)
    return ", ".join(os.fspath(part) for part in path[:3]) + (", ..." if len(path) > 3 else "")


# ---- ranges to rows
def _scan(part: _Range, zero_based: bool) -> tuple[int, float, int]:
    """Count rows and find the smallest and largest index as written in the file.

    Without indices these are infinity and 0.
    """
    X, y = _parse(part, None, zero_based, np.dtype("float64"))
    shift = 0 if zero_based else 1
    if not X.nnz:
        return len(y), math.inf, -1 + shift
    return len(y), int(X.indices.min()) + shift, int(X.indices.max()) + shift


def _read(
    part: _Range, n_features: int, zero_based: bool, dtype: np.dtype
) -> tuple[sp.csr_matrix, np.ndarray]:
    X, y = _parse(part, n_features, zero_based, dtype)
    # scikit-learn gives int64 indices; half of that is enough, and the kernels need not convert
    if X.nnz <= np.iinfo(np.int32).max:
        X.indptr = X.indptr.astype(np.int32)
    X.indices = X.indices.astype(np.int32)
    return X, np.asarray(y, dtype=np.float64)


def _parse(
    part: _Range, n_features: int | None, zero_based: bool, dtype: np.dtype
) -> tuple[Any, np.ndarray]:
    data = part.read()
    try:
        return _load(data, n_features, zero_based, dtype)
    except _ERRORS:
        offset, line, reason = _culprit(data, n_features, zero_based)
    text = line.decode("utf-8", "replace").strip()
    reason, text = (each if len(each) <= 80 else each[:80] + "..." for each in (reason, text))
    raise ValueError(f"{part.path}, line {part.lines_before() + offset + 1}: {reason}: {text!r}")


def _load(
    data: bytes, n_features: int | None, zero_based: bool, dtype: Any = "float64"
) -> tuple[Any, np.ndarray]:
    if not data.strip():
        return sp.csr_matrix((0, n_features or 1), dtype=dtype), np.empty(0)
    X, y = load_svmlight_file(
        io.BytesIO(data), n_features=n_features, zero_based=zero_based, dtype=dtype
    )
    return sp.csr_matrix(X), y


def _culprit(data: bytes, n_features: int | None, zero_based: bool) -> tuple[int, bytes, str]:
    """Find the first line that cannot be read: its number from 0, content, and what is wrong.

    Lines do not depend on each other, so halving finds it at about the cost of reading once more.
    """
    lines = data.split(b"\n")
    lo, hi = 0, len(lines)
    while hi - lo > 1:
        middle = (lo + hi) // 2
        try:
            _load(b"\n".join(lines[lo:middle]) + b"\n", n_features, zero_based)
            lo = middle
        except _ERRORS:
            hi = middle
    try:
        _load(lines[lo] + b"\n", n_features, zero_based)
        reason = "cannot be read"
    except _ERRORS as error:
        reason = _reason(str(error), n_features)
    return lo, lines[lo], reason


def _reason(message: str, n_features: int | None) -> str:
    if message.startswith("n_features was set"):
        return f"an index is beyond n_features={n_features}"
    if "sorted and unique" in message:
        return "indices must increase from left to right"
    if message.startswith("need more than 1 value"):
        return "expected index:value"
    if message.startswith("Invalid index"):
        return message.replace(" in SVMlight/LibSVM data file.", "")
    return message.replace("b'", "'")
