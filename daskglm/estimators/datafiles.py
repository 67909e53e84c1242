"""Files of data as the command line takes them: format, dask collections, and errors that name the
file.
"""

from __future__ import annotations

import contextlib
import gzip
import lzma
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa

from daskglm.core.arguments import shown
from daskglm.estimators import csv_columns
from daskglm.estimators.csv_dialect import Dialect, dialect_of

_SVMLIGHT = (".svm", ".libsvm", ".txt", ".svmlight")
_CSV = (".csv", ".tsv")
_WORKBOOKS = (".xlsx", ".xls", ".ods")
_PACKED = (".gz", ".bz2", ".xz")
# Lines of a CSV file that are compared beforehand.
_HEAD = 3
# Rows of a CSV file that are read at once in the search for what is wrong with it.
_ROWS = 100_000
# Bytes of row groups of Parquet that become one partition. Chosen.
PARQUET_BLOCK = 1 << 26
# Bytes at the beginning of CSV files by which columns have types (30 ms), and lines at most.
# Dask's own ten lines are of one type in most columns that are seldom filled, or seldom text.
SAMPLED = 4_000_000
# What dask and pandas say of files with other columns than the first.
_OTHER_COLUMNS = ("not in index", "not found in columns", "Usecols do not match")
# How errors name partitions.
_PARTITION = re.compile(r"\bpartition (\d+)\b")
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
    if extension in _CSV:
        return "csv"
    if extension in _WORKBOOKS:
        raise ValueError(f"{path} is a workbook: save its sheet as 'CSV UTF-8', or as Parquet")
    if os.path.isdir(path):
        here = os.listdir(path)
        only_csv = any(_is_of("csv", n) for n in here) and not any(
            _is_of("parquet", n) for n in here
        )
        return "csv" if only_csv else "parquet"
    return "parquet" if extension in (".parquet", ".pq") else None


# ---- rows to fit
def read_training(
    path: str,
    kind: str,
    *,
    label: str | None,
    dtype: str,
    n_features: int | None,
    zero_based: bool | None,
    beside: Collection[str] = (),
    dropped: Collection[str] = (),
    text: Collection[str] = (),
    numbers: Collection[str] = (),
) -> tuple[Any, Any]:
    """Return lazy features and targets of files, as `fit` takes them.

    For CSV and Parquet are `label` (default: the last column that is not `beside` or `dropped`),
    the names of columns `beside` the features and of those that are `dropped`; for CSV those of
    features that are `text` or `numbers` whatever they look like. `n_features` and `zero_based`
    (default: found by reading all rows) are for svmlight.
    """
    if kind == "svmlight":
        from daskglm.data.svmlight import read_svmlight

        return read_svmlight(
            path, n_features=n_features, dtype=dtype, zero_based=or_auto(zero_based)
        )
    taken = {*beside, *dropped}

    def types(columns: list[str]) -> csv_columns.Types:
        target = label or _target(columns, taken)
        return csv_columns.Types(text, {*numbers, *beside} - {*text}, (), (target,))

    frame = read_frame(path, kind, types)
    for name in (*beside, *dropped, *text, *numbers, *([label] if label else [])):
        check_column(frame, name)
    target = label or _target(list(frame.columns), taken)
    if target in taken:
        raise ValueError(f"column {target!r} is the target, and is named for something else, too")
    if not set(frame.columns) - {target, *taken}:
        raise ValueError(
            f"{path} read as {kind} has no column beside the target {str(target)[:60]!r}: there "
            "are no features; is it of another format?"
        )
    kept = [name for name in frame.columns if name not in dropped]
    return as_dtype(frame[kept] if dropped else frame, (target, *beside), dtype), target


def _target(columns: list[str], taken: Collection[str]) -> str:
    """Return the last column that is not named for something else."""
    left = [name for name in columns if name not in taken]
    if not left:
        raise ValueError(f"none of the columns is left for the target: {shown(columns)}")
    return left[-1]


def or_auto(zero_based: bool | None) -> bool | str:
    """Return the first index of svmlight data as its reader takes it."""
    return "auto" if zero_based is None else zero_based


def read_frame(
    path: str,
    kind: str,
    types: Callable[[list[str]], csv_columns.Types],
    columns: Collection[str] | None = None,
) -> Any:
    """Make a dask dataframe of CSV or Parquet files.

    `types` says from the names of columns what types those of CSV have; `columns` are those that
    are read, default: all. Raises FileNotFoundError, or ValueError that names a bad file.
    """
    import dask.dataframe as dd

    names = None if columns is None else list(columns)
    with explained(path, kind):
        if kind == "parquet":
            # by default dask would take files of up to twice 256 MiB whole, or all that come after
            # small ones; and columns of text are several times larger in memory
            return dd.read_parquet(
                path, columns=names, split_row_groups="adaptive", blocksize=PARQUET_BLOCK
            )
        found = files(path, kind)
        if not found:
            raise FileNotFoundError(f"no file matches {path!r}")
        dialect = dialect_of(*found[0])
        _check_head(*found[0], dialect)
        more: dict[str, Any] = {"usecols": names} if names else {}
        more |= dialect.options()
        if os.path.splitext(found[0][1])[1].lower() in _PACKED:
            more["blocksize"] = None
        if os.path.isdir(path):
            given: Any = [fs.unstrip_protocol(name) for fs, name in found]
        else:
            given = path
        sampled = dd.read_csv(given, **more, sample=SAMPLED, sample_rows=SAMPLED).dtypes
        dtypes = types(list(sampled.index)).of(sampled)
        with placed(path, kind, dtypes):
            return dd.read_csv(given, **more, dtype=dtypes)


def as_dtype(X: Any, beside: Collection[str], dtype: str) -> Any:
    """Features that are floats in `dtype`; others, levels among them, are left as they are."""
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


# ---- what is wrong with a file
def facts_of(X: Any) -> tuple[Mapping[str, Any], int]:
    """Return what `placed` wants to know of lazy rows: dtypes of a frame, and partitions."""
    return dict(getattr(X, "dtypes", {})), int(X.npartitions)


@contextlib.contextmanager
def placed(path: str, kind: str, dtypes: Mapping[str, Any], partitions: int = 0) -> Iterator[None]:
    """Raise errors about values of CSV and Parquet files as ValueError with the file they are of.

    Dask names no file, and of values of another type than their column no line either; so the files
    are read again for them here.
    """
    try:
        yield
    except (KeyError, ValueError) as error:
        said = str(error)
        if kind == "svmlight":
            raise
        if kind == "csv" and any(part in said for part in csv_columns.OF_TYPES):
            dialect = dialect_of_files(path)
            for fs, name in files(path, kind):
                with fs.open(name, "rb", compression="infer") as file:
                    found = csv_columns.first_other(file, dtypes, dialect)
                if found:
                    raise ValueError(f"{name}, {found}") from error
        if any(part in said for part in _OTHER_COLUMNS) and (found := _other_columns(path, kind)):
            raise ValueError(f"{found}") from error
        at = _PARTITION.search(said)
        of = files_by_partition(path, kind, partitions) if at else []
        if at and int(at[1]) < len(of) and of[int(at[1])] not in said:
            raise ValueError(f"{said} (partition {at[1]} is of {of[int(at[1])]})") from error
        raise


def _other_columns(path: str, kind: str) -> str | None:
    """Say which file has other columns than the first one; None: none has."""
    import pyarrow.parquet as pq

    first: list[str] | None = None
    options = dialect_of_files(path).options() if kind == "csv" else {}
    for fs, name in files(path, kind):
        with fs.open(name, "rb", compression="infer" if kind == "csv" else None) as file:
            columns = (
                list(pd.read_csv(file, nrows=0, **options).columns)
                if kind == "csv"
                else pq.read_schema(file).names
            )
        first = columns if first is None else first
        if missing := [column for column in first if column not in columns]:
            return f"{name}: it has no column {missing[0]!r}, which other files of the data have"
    return None


def files_by_partition(path: str, kind: str, count: int) -> list[str]:
    """Return the file of each of `count` partitions; empty where that is not known.

    It is known of a single file, and where partitions are as many as files. Dask puts Parquet files
    in the order of the numbers in their names.
    """
    from dask.utils import natural_sort_key

    names = [name for _, name in files(path, kind)]
    if kind == "parquet":
        names.sort(key=natural_sort_key)
    if len(names) == 1:
        return names * count
    return names if len(names) == count else []


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
        for fs, name in files(path, kind):
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


def files(path: str, kind: str) -> list[tuple[Any, str]]:
    """Files that a path, a pattern or a folder stands for, each with its file system."""
    from fsspec.core import get_fs_token_paths

    fs, _, names = get_fs_token_paths(path)
    found: list[str] = []
    for name in names:
        found += sorted(fs.find(name)) if fs.isdir(name) else [name] if fs.exists(name) else []
    if len(found) == 1 or (kind == "csv" and not any(map(fs.isdir, names))):
        return [(fs, name) for name in found]
    return [(fs, name) for name in found if _is_of(kind, name)]


def _is_of(kind: str, name: str) -> bool:
    """Return whether a file in a folder is one of the data, by its name."""
    packed = tuple(f"{of}{end}" for of in _CSV for end in ("", *_PACKED))
    return name.lower().endswith(packed if kind == "csv" else (".parquet", ".pq"))


def dialect_of_files(path: str) -> Dialect:
    """Return how CSV files are written: as the first one is."""
    return dialect_of(*files(path, "csv")[0])


def _check_head(fs: Any, name: str, dialect: Dialect) -> None:
    """Refuse a first line of numbers, and have pandas refuse rows with more values than that has.

    It would take the first value for an index.
    """
    with fs.open(name, "rb", compression="infer") as file:
        head = pd.read_csv(file, nrows=_HEAD, header=None, dtype=str, **dialect.options())
    numbers = pd.to_numeric(head.iloc[0].str.replace(dialect.decimal, "."), errors="coerce")
    if numbers.notna().all() and (numbers % 1 != 0).any():
        raise ValueError(
            f"{name}: line 1 is {shown(head.iloc[0].tolist())}, where names of columns are wanted: "
            "put a line of names before it"
        )


def _read_again(fs: Any, name: str, kind: str) -> None:
    if kind == "parquet":
        import pyarrow.parquet as pq

        with fs.open(name, "rb") as file:
            whole = pq.ParquetFile(file)
            for group in range(whole.num_row_groups):
                whole.read_row_group(group)
        return
    dialect = dialect_of(fs, name)
    _check_head(fs, name, dialect)
    with fs.open(name, "rb", compression="infer") as file:
        for _ in pd.read_csv(file, chunksize=_ROWS, **dialect.options()):
            pass


def _reason(fs: Any, name: str, kind: str, error: BaseException) -> str:
    said = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, UnicodeError):
        return (
            f", line {_line_of_other_text(fs, name)}: not UTF-8 ({said}); spreadsheets save it as "
            "'CSV UTF-8', and `iconv -f WINDOWS-1252 -t UTF-8` converts what Windows wrote"
        )
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
