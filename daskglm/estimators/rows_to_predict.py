"""Rows of files for a fitted model, one partition after the other, with what goes with predictions:
targets to score them, and identifiers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from daskglm.core.arguments import shown
from daskglm.estimators import csv_columns
from daskglm.estimators.datafiles import (
    check_column,
    dialect_of_files,
    explained,
    facts_of,
    files,
    files_by_partition,
    or_auto,
    placed,
    read_frame,
)
from daskglm.estimators.prediction_file import Part
from daskglm.estimators.tables import count_of_coefficients, with_roles

# Lines of a CSV file that say whether identifiers are whole numbers.
ID_LINES = 1000


class Rows(NamedTuple):
    """Rows for a fitted model, partition by partition; columns by their role: offset, exposure and
    sample_weight; columns that are not used; and the columns of identifiers, without rows.
    """

    parts: Iterator[Part]
    beside: dict[str, str]
    unused: tuple[str, ...] = ()
    ids: Any = None


def rows_of(
    path: str,
    kind: str,
    model: Any,
    label: str | None,
    zero_based: bool | None,
    beside: Mapping[str, str],
    ids: Sequence[str] = (),
) -> Rows:
    """Open rows for a fitted model; one partition at a time is in memory.

    Columns that are not given for a role `beside` the features are those of the fit, where the data
    have them. `ids` are columns that go with the predictions. Raises ValueError for columns that
    are missing.
    """
    if kind == "svmlight":
        return Rows(_svmlight_parts(path, model, zero_based), {})
    of_model = csv_columns.of_model(model)
    roles = {*getattr(model, "roles_", {}).values(), *beside.values()}

    def types(columns: list[str]) -> csv_columns.Types:
        numbers = {*of_model.numbers, *roles}
        # of identifiers "007" is not 7
        text = {*of_model.text, *({*ids} - {*numbers, *of_model.booleans})}
        target = () if label is None else (label,)
        if label is not None and _has_text_classes(model):
            text.add(label)
        return of_model._replace(text=text, numbers=numbers, as_sampled=target)

    frame = read_frame(path, kind, types)
    wanted = dict.fromkeys(("offset", "exposure", "sample_weight")) | dict(beside)
    found = with_roles(getattr(model, "roles_", {}), frame, wanted)
    found = {role: name for role, name in found.items() if name is not None}
    known = [*found.values(), *ids, *([] if label is None else [label])]
    for name in known:
        check_column(frame, name)
    features = _features(frame, model, known, label)
    names = list(dict.fromkeys([*features, *found.values()]))
    unused = [name for name in frame.columns if name not in {*names, *known}]
    read = [name for name in frame.columns if name not in unused]
    frame = read_frame(path, kind, types, read) if unused else frame
    whole = _whole_ids(path, ids) if kind == "csv" else ()
    opened = _Opened(path, kind, frame, names, label, tuple(ids), whole)
    empty = _ids_of(frame._meta, ids, whole) if ids else None
    return Rows(_parts(opened), found, tuple(unused), empty)


class _Opened(NamedTuple):
    path: str
    kind: str
    frame: Any
    names: list[str]
    label: str | None
    ids: tuple[str, ...]
    whole: Collection[str]


def _parts(of: _Opened) -> Iterator[Part]:
    import dask

    # optimised, dask would join partitions of which few columns are read
    lazy = of.frame.to_delayed(optimize_graph=False)
    names = files_by_partition(of.path, of.kind, len(lazy))
    several = len(set(names)) < len(lazy)  # partitions of one file, or of unknown ones
    for i, part in enumerate(lazy):
        where = names[i] if names else ""
        if several:
            where = f"partition {i}" + (f" of {where}" if where else "")
        with placed(of.path, of.kind, *facts_of(of.frame)), explained(of.path, of.kind):
            (rows,) = dask.compute(part, scheduler="synchronous")
        ids = _ids_of(rows, of.ids, of.whole, f"{where}, ") if of.ids else None
        y = None if of.label is None else rows[of.label].to_numpy()
        yield Part(rows[of.names], y, ids, f"{where}: ")


def _svmlight_parts(path: str, model: Any, zero_based: bool | None) -> Iterator[Part]:
    import dask

    from daskglm.data.svmlight import read_svmlight

    width = count_of_coefficients(model)
    X, y = read_svmlight(path, n_features=width, zero_based=or_auto(zero_based))
    lazy = zip(
        X.to_delayed(optimize_graph=False).ravel(),
        y.to_delayed(optimize_graph=False).ravel(),
        strict=True,
    )
    for pair in lazy:
        yield Part(*dask.compute(*pair, scheduler="synchronous"))


def _features(frame: Any, model: Any, known: Collection[str], label: str | None) -> list[str]:
    """Columns that the model wants, in its order: those of its fit, or all that are not `known`."""
    left = [name for name in frame.columns if name not in known]
    wanted = list(getattr(model, "feature_names_in_", left))
    if missing := [name for name in wanted if name not in frame.columns]:
        raise ValueError(f"the data have no column {missing[0]!r}, which the model was fitted to")
    if label in wanted:
        raise ValueError(f"column {label!r} is a feature of the model, and cannot be the target")
    return wanted


def _has_text_classes(model: Any) -> bool:
    classes = getattr(model, "classes_", np.empty(0)).tolist()
    return bool(classes) and all(isinstance(label, str) for label in classes)


# ---- identifiers
def _whole_ids(path: str, ids: Sequence[str]) -> tuple[str, ...]:
    """Return the identifiers of CSV files that are whole numbers in the first lines.

    "007" is none: 7 would be another identifier.
    """
    if not ids:
        return ()
    fs, name = files(path, "csv")[0]
    given: dict[str, Any] = {"dtype": csv_columns.TEXT, "usecols": list(ids)}
    given |= dialect_of_files(path).options()
    with fs.open(name, "rb", compression="infer") as file:
        head = pd.read_csv(file, nrows=ID_LINES, **given)
    return tuple(name for name in ids if len(head) and _changed(head[name]) is None)


def _ids_of(rows: Any, ids: Sequence[str], whole: Collection[str], where: str = "") -> Any:
    """Return identifiers as they are written: their values in the place of categories, and those
    of CSV that are whole numbers as such.
    """
    found = {}
    for name in ids:
        column = rows[name]
        if name in whole and isinstance(column.dtype, pd.StringDtype):
            if (wrong := _changed(column)) is not None:
                raise ValueError(
                    f"{where}row {wrong:,}: --id {name!r} is {shown(column.iloc[wrong])}, but the "
                    "first lines of the data have whole numbers there: convert them to one type"
                )
            column = column.astype("int64")
        elif isinstance(column.dtype, pd.CategoricalDtype):
            column = column.astype(column.cat.categories.dtype)
        found[name] = column.reset_index(drop=True)
    return pd.DataFrame(found)


def _changed(column: Any) -> int | None:
    """Return the first row whose text would be another one after it was a whole number."""
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(float, na_value=np.nan)
    good = np.isfinite(numbers) & (np.abs(numbers) < csv_columns.EXACT)
    text = column.to_numpy(object)
    pairs = zip(numbers[good], text[good], strict=True)
    good[good] = [str(int(value)) == given for value, given in pairs]
    return None if good.all() else int(np.argmin(good))
