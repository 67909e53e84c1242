"""Files of data as the command line takes them: format, dask collections, and errors that name the
file.
"""

from __future__ import annotations

import contextlib
import gzip
import lzma
import os
import zlib
from collections.abc import Collection, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa

FORMATS = ["auto", "svmlight", "csv", "parquet"]

_SVMLIGHT = (".svm", ".libsvm", ".txt", ".svmlight")
_PACKED = (".gz", ".bz2", ".xz")
# Lines of a CSV file that are compared beforehand.
_HEAD = 3
# Rows of a CSV file that are read at once in the search for what is wrong with it.
_ROWS = 100_000
# What pandas, pyarrow and the unpackers raise for files that they cannot read.
_UNREADABLE = (
    pd.errors.ParserError,
    pd.errors.EmptyDataError,
    UnicodeError,
    EOFError,
    OSError,
    zlib.error,
    lzma.LZMAError,
    pa.ArrowException,
)


def format_of(path: str, asked: str) -> str | None:
    """Return the format of files: as asked for, or by their extension, or None.

    Raises ValueError for a pipe or a device: data are read more than once.
    """
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise ValueError(
            f"{path} is a pipe or a device; data are read more than once, so give a file"
        )
    if asked != "auto":
        return asked
    stem, extension = os.path.splitext(path.rstrip("/").lower())
    if extension in _PACKED:
        extension = os.path.splitext(stem)[1]
        # data sets of LIBSVM come as a9a.bz2, with no other extension
        if extension in _SVMLIGHT or not extension:
            return "svmlight"
    if extension in _SVMLIGHT:
        return "svmlight"
    if extension == ".csv":
        return "csv"
    if extension in (".parquet", ".pq") or os.path.isdir(path):
        return "parquet"
    return None


def read_training(
    path: str,
    kind: str,
    *,
    label: str | None,
    dtype: str,
    n_features: int | None,
    zero_based: bool | None,
    beside: Collection[str] = (),
) -> tuple[Any, Any]:
    """Return lazy features and targets of files, as `fit` takes them.

    `label` (default: the last column that is not `beside`) and the names of columns `beside` the
    features are for CSV and Parquet, `n_features` and `zero_based` (default: found by reading all
    rows) are for svmlight.
    """
    if kind == "svmlight":
        from daskglm.data.svmlight import read_svmlight

        return read_svmlight(
            path, n_features=n_features, dtype=dtype, zero_based=_or_auto(zero_based)
        )
    frame = read_frame(path, kind)
    for name in beside:
        check_column(frame, name)
    label = label or [name for name in frame.columns if name not in beside][-1]
    if not set(frame.columns) - {label, *beside}:
        raise ValueError(
            f"{path} read as {kind} has no column beside the target {str(label)[:60]!r}: there are "
            "no features; is it of another format?"
        )
    return as_dtype(frame, (label, *beside), dtype), label


def _or_auto(zero_based: bool | None) -> bool | str:
    return "auto" if zero_based is None else zero_based


def read_frame(path: str, kind: str) -> Any:
    """Make a dask dataframe of CSV or Parquet files.

    Raises FileNotFoundError, or ValueError that names a bad file.
    """
    import dask.dataframe as dd

    with explained(path, kind):
        if kind == "parquet":
            return dd.read_parquet(path)
        names = _files(path, kind)
        if not names:
            raise FileNotFoundError(f"no file matches {path!r}")
        _check_head(*names[0])
        packed = os.path.splitext(path)[1].lower() in _PACKED
        return dd.read_csv(path, blocksize=None) if packed else dd.read_csv(path)


def as_dtype(X: Any, beside: Collection[str], dtype: str) -> Any:
    """Features, all columns but some, in `dtype`; what are no numbers is left for `fit` to name."""
    for name in beside:
        check_column(X, name)
    numbers = {
        name: dtype
        for name in X.columns
        if name not in beside and getattr(X.dtypes[name], "kind", "O") == "f"
    }
    return X.astype(numbers) if numbers else X


def check_column(X: Any, label: str) -> None:
    """Raise ValueError where a frame has no such column."""
    if label not in X.columns:
        raise ValueError(
            f"the data have no column {label!r}; they have {', '.join(map(repr, X.columns[:20]))}"
        )


def parts(
    path: str,
    kind: str,
    model: Any,
    label: str | None,
    zero_based: bool | None,
    beside: Collection[str] = (),
) -> Iterator[Any]:
    """Yield rows and targets (None: absent) of one partition after the other.

    Rows of CSV and Parquet have the columns `beside` the features, too.
    """
    import dask

    if kind == "svmlight":
        from daskglm.data.svmlight import read_svmlight

        X, y = read_svmlight(path, n_features=model.n_features_in_, zero_based=_or_auto(zero_based))
        lazy = zip(
            X.to_delayed(optimize_graph=False).ravel(),
            y.to_delayed(optimize_graph=False).ravel(),
            strict=True,
        )
        for pair in lazy:
            yield dask.compute(*pair, scheduler="synchronous")
        return
    frame = read_frame(path, kind)
    names = [*_features(frame, model, label, beside), *beside]
    for part in frame.to_delayed():
        with explained(path, kind):
            (rows,) = dask.compute(part, scheduler="synchronous")
        yield rows[names], None if label is None else rows[label].to_numpy()


def _features(frame: Any, model: Any, label: str | None, beside: Collection[str] = ()) -> list[str]:
    """Columns that the model wants, in its order.

    Others are ignored only if they are the label or `beside` the features.
    """
    known = [*beside, *([] if label is None else [label])]
    for name in known:
        check_column(frame, name)
    left = [name for name in frame.columns if name not in known]
    wanted = list(getattr(model, "feature_names_in_", left))
    missing = [name for name in wanted if name not in left]
    if missing:
        raise ValueError(f"the data have no column {missing[0]!r}, which the model was fitted to")
    extra = [name for name in left if name not in wanted]
    if extra:
        raise ValueError(
            f"the model does not know the column {extra[0]!r}; if it is the target give --label"
        )
    return wanted


# ---- what is wrong with a file
@contextlib.contextmanager
def explained(path: str, kind: str) -> Iterator[None]:
    """Raise readers' errors about CSV and Parquet files as ValueError with file, line and fault.

    The readers work in pieces and on workers, and mostly do not say of which file; so the files are
    read again here.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except _UNREADABLE as error:
        of_a_file = not isinstance(error, OSError) or type(error) in (
            OSError,
            gzip.BadGzipFile,
        )  # no lost link, say
        if kind == "svmlight" or not of_a_file:  # the reader of svmlight names file and line itself
            raise
        for fs, name in _files(path, kind):
            try:
                _read_again(fs, name, kind)
            except _UNREADABLE as found:
                raise ValueError(f"{name}{_reason(fs, name, kind, found)}") from error
        raise
    except ValueError as error:
        if "Mismatched dtypes" in str(error):
            raise ValueError(
                f"{path}: columns change their type from one part to the next: {error}"
            ) from error
        raise


def _files(path: str, kind: str) -> list[tuple[Any, str]]:
    """Files that a path, a pattern or a folder stands for, each with its file system."""
    from fsspec.core import get_fs_token_paths

    fs, _, names = get_fs_token_paths(path)
    found: list[str] = []
    for name in names:
        found += sorted(fs.find(name)) if fs.isdir(name) else [name] if fs.exists(name) else []
    return [
        (fs, name)
        for name in found
        if kind == "csv" or name.endswith((".parquet", ".pq")) or len(found) == 1
    ]


def _check_head(fs: Any, name: str) -> None:
    """Have pandas refuse rows with more values than the first line has names.

    It would take the first for an index.
    """
    with fs.open(name, "rb", compression="infer") as file:
        pd.read_csv(file, nrows=_HEAD, header=None)


def _read_again(fs: Any, name: str, kind: str) -> None:
    if kind == "parquet":
        import pyarrow.parquet as pq

        with fs.open(name, "rb") as file:
            whole = pq.ParquetFile(file)
            for group in range(whole.num_row_groups):
                whole.read_row_group(group)
        return
    _check_head(fs, name)
    with fs.open(name, "rb", compression="infer") as file:
        for _ in pd.read_csv(file, chunksize=_ROWS):
            pass


def _reason(fs: Any, name: str, kind: str, error: BaseException) -> str:
    said = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, UnicodeError):
        return f", line {_line_of_other_text(fs, name)}: not UTF-8 ({said})"
    if isinstance(error, pd.errors.EmptyDataError):
        return ": the file is empty"
    if isinstance(error, pd.errors.ParserError):
        said = said.removeprefix("Error tokenizing data. C error: ")
        return f": rows of different lengths, or no CSV: {said}"
    if kind == "csv":
        return f": the file is damaged, or not packed as its name says: {said}"
    return f": no Parquet file, or a damaged one: {said}"


def _line_of_other_text(fs: Any, name: str) -> int:
    """Return the first line that is not UTF-8, from 1."""
    with fs.open(name, "rb", compression="infer") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return 0
