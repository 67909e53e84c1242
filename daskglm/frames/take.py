"""Tables as rows that are ready to be fitted: a design is learned where the rows are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from daskglm.core.device import on_device
from daskglm.data.alignment import bundles, is_delayed, unbundle
from daskglm.data.containers import Named
from daskglm.data.loading import compute_here
from daskglm.data.partitions import have_columns, is_dask, like_partitions, with_constants
from daskglm.data.values import Place
from daskglm.frames.columns import Codes, RawFrame
from daskglm.frames.design import Design
from daskglm.frames.fitted import design_of
from daskglm.frames.learn import seen, together
from daskglm.frames.no_levels import refuse_no_levels
from daskglm.frames.read import is_plain, is_text_view, read
from daskglm.frames.schema import Schema
from daskglm.kernels.coded_rows import Coded


class How(NamedTuple):
    """How a design is learned: what the user says, and whether the fit has an intercept.

    `penalised` says of a column whether its coefficients have a penalty; so many `threads` read a
    table in memory.
    """

    schema: Schema
    penalised: Callable[[str], bool]
    intercept: bool
    threads: int = 1


# Computes delayed parts on a cluster, and small results of them: returns the latter, and futures of
# the parts.
Look = Callable[[Sequence[Any], Sequence[Any]], tuple[list[Any], tuple[Any, ...]]]


class Table(NamedTuple):
    """Rows and what is beside them, as `partitions` takes them, and their design.

    `encoded` makes rows of the same columns by another design.
    """

    X: Any
    beside: dict[str, Any]
    design: Design
    encoded: Callable[..., tuple[Named, dict[str, Any]]]

    def by(self, design: Design) -> Table:
        """Return the rows by another design."""
        same = design.kept_numbers == self.design.kept_numbers and isinstance(self.X.rows, Coded)
        dense = self.X.rows.dense if same else None
        return Table(*self.encoded(design, dense=dense), design, self.encoded)


def is_table(X: Any) -> bool:
    """Return whether X has named columns: a frame of pandas, of dask, or of cuDF."""
    return not is_delayed(X) and hasattr(X, "columns") and hasattr(X, "dtypes")


def has_levels(X: Any, beside: Mapping[str, Any], schema: Schema) -> bool:
    """Return whether X is a table with features that are no plain numbers, or with a schema."""
    if not is_table(X) or on_device(X):
        return False
    named = {values for values in beside.values() if isinstance(values, str)}
    if not schema.is_default:
        return True
    kinds = [dtype for name, dtype in X.dtypes.items() if name not in named]
    return not all(map(_is_old, kinds))


def _is_old(dtype: Any) -> bool:
    """Return whether a column is taken as numbers where no other column wants a design."""
    if is_text_view(dtype):
        return False
    return is_plain(dtype) or getattr(dtype, "kind", "O") in "bMmc"


def learn(X: Any, beside: Mapping[str, Any], how: How, *, look: Look | None, keep: bool) -> Table:
    """Learn the design of a table, and return its rows by codes.

    Cost: one pass over the rows, in which partitions are read and kept, unless they are not to be.

    Parameters
    ----------
    X : pandas or dask DataFrame
    beside : dict
        What is beside X: values, names of columns, numbers for all rows, or None.
    look : callable, optional
        Reads partitions on a cluster; None: they are read in this process.
    keep : bool
        Whether they are kept in memory once they are read.

    Raises
    ------
    ValueError
        For tables that no design can be made of.
    MemoryError
        For partitions that cannot be kept.
    """
    named = {name: value for name, value in beside.items() if isinstance(value, str)}
    have_columns(X, named.values())
    features = [name for name in X.columns if name not in named.values()]
    _check_features(features, named)
    schema = how.schema
    wanted = _Kinds(features, _coded_anyhow(schema), tuple(schema.numeric or ()))
    if not is_dask(X):
        raw = wanted.read(X, Place(), how.threads)
        found = [seen(raw, schema)]
    else:
        parts = _read_parts(X, beside, named, wanted)
        found, parts, held = _seen_of(parts, schema, look, keep)
    whole = together([part for part in found if part.n] or found[:1])
    refuse_no_levels(whole, _coded_anyhow(schema))
    design = design_of(
        schema, whole, penalised=how.penalised, intercept=how.intercept, roles=_roles(named)
    )
    if not is_dask(X):
        encoded = partial(_here, X, raw, beside, named, threads=how.threads)
    else:
        encoded = partial(_lazily, parts, beside, held=held, now=keep and look is None)
    return Table(*encoded(design), design, encoded)


def encode(
    X: Any, beside: Mapping[str, Any], design: Design, *, weigh: bool
) -> tuple[Any, dict[str, Any]]:
    """Return a table's rows by the codes of a fitted design, and what is beside them.

    Rows of levels that the fit has left out `weigh` nothing, by the sample_weight beside them, or
    are refused.
    """
    named = {name: value for name, value in beside.items() if isinstance(value, str)}
    have_columns(X, named.values())
    if not is_dask(X):
        return _here(X, design.read(X, Place()), beside, named, design, weigh=weigh)
    parts = _read_parts(X, beside, named, design)
    return _lazily(parts, beside, design, weigh=weigh)


# ---- in memory
def _here(
    X: Any,
    raw: RawFrame,
    beside: Mapping[str, Any],
    named: Mapping[str, str],
    design: Design,
    *,
    weigh: bool = True,
    dense: np.ndarray | None = None,
    threads: int = 1,
) -> tuple[Named, dict[str, Any]]:
    values = {name: X[named[name]] if name in named else given for name, given in beside.items()}
    if not weigh:
        return Named(design.encode(raw, Place()), design.names), values
    rows, left_out = design.encode_some(raw, Place(), dense, threads)
    values["sample_weight"] = _weights(values.get("sample_weight"), left_out)
    return Named(rows, design.names), values


def _weights(given: Any, left_out: np.ndarray | None) -> Any:
    """Return weights that are zero where rows are left out."""
    if left_out is None or not left_out.any():
        return given
    if hasattr(given, "where"):
        return given.where(~left_out, 0.0)
    return np.where(left_out, 0.0, 1.0 if given is None else np.asarray(given))


# ---- partition by partition
class _Kinds(NamedTuple):
    """Columns, and those that are levels, or numbers, whatever their dtype."""

    columns: list[str]
    factors: tuple[str, ...]
    numeric: tuple[str, ...]

    def read(self, frame: Any, place: Place, threads: int = 1) -> RawFrame:
        """Read the columns of a pandas frame."""
        return read(frame[self.columns], self.factors, self.numeric, place, threads)


class _Part(NamedTuple):
    raw: RawFrame
    beside: dict[str, Any]


def _read_parts(
    X: Any,
    beside: Mapping[str, Any],
    named: Mapping[str, str],
    how: Design | _Kinds,
) -> list[tuple[Any, Any]]:
    """Return delayed parts, and the delayed bundles that they are read from."""
    import dask

    one, of = dask.delayed(_read_part), dask.delayed(how, traverse=False)
    given = like_partitions(X, with_constants(beside))
    found = bundles(X, given)
    return [(one(part, Place(i), dict(named), of), part) for i, part in enumerate(found)]


def _read_part(
    bundle: dict[str, Any],
    place: Place,
    named: Mapping[str, str],
    how: Design | _Kinds,
) -> _Part:
    X, given = unbundle(bundle, place)
    return _Part(how.read(X, place), given | {name: X[column] for name, column in named.items()})


def _seen_of(
    parts: list[tuple[Any, Any]], schema: Schema, look: Look | None, keep: bool
) -> tuple[list[Any], list[tuple[Any, Any]], tuple[Any, ...]]:
    """Return what all partitions have, the parts, and futures of those that a cluster keeps."""
    import dask

    reads, held = [part for part, _ in parts], ()
    if keep and look is None:
        reads = list(map(_as_delayed, compute_here(reads, _bytes_of_part)))
    one, of = dask.delayed(_seen_part), dask.delayed(schema, traverse=False)
    wanted = [one(part, of) for part in reads]
    if look is None:
        found = list(dask.compute(*wanted))
    else:
        found, held = look(reads if keep else [], wanted)
    return found, list(zip(reads, (bundle for _, bundle in parts), strict=True)), held


def _as_delayed(value: Any) -> Any:
    import dask

    return dask.delayed(value, traverse=False)


def _bytes_of_part(part: _Part) -> int:
    columns = [c.codes if isinstance(c, Codes) else c for c in part.raw.columns.values()]
    beside = (values for values in part.beside.values() if hasattr(values, "nbytes"))
    return sum(int(values.nbytes) for values in (*columns, *beside))


def _seen_part(part: _Part, schema: Schema) -> Any:
    return seen(part.raw, schema)


def _lazily(
    parts: list[tuple[Any, Any]],
    beside: Mapping[str, Any],
    design: Design,
    *,
    weigh: bool = True,
    dense: None = None,
    held: tuple[Any, ...] = (),
    now: bool = False,
) -> tuple[Named, dict[str, Any]]:
    """Return delayed rows and what is beside them; `now`: of parts in memory, which may go then."""
    import dask

    weigh = weigh and any(factor.left_out for factor in design.of_absorbed)
    one = dask.delayed(_encode_some if weigh else _encode_part)
    of, get = dask.delayed(design, traverse=False), dask.delayed(_get)
    rows = [one(part, of, Place(i)) for i, (part, _) in enumerate(parts)]
    values: dict[str, Any] = {}
    for name, given in with_constants(beside).items():
        if weigh and name == "sample_weight":
            weights = dask.delayed(_weights_of)
            found = zip(rows, parts, strict=True)
            values[name] = [weights(encoded, part) for encoded, (part, _) in found]
        elif given is None or isinstance(given, float):
            values[name] = given
        else:
            values[name] = [get(part, name) for part, _ in parts]
    if weigh:
        first = dask.delayed(_first)
        rows = [first(encoded) for encoded in rows]
    if now:
        lists = {name: each for name, each in values.items() if isinstance(each, list)}
        rows, lists = dask.compute(rows, lists)
        rows = list(map(_as_delayed, rows))
        values |= {name: list(map(_as_delayed, each)) for name, each in lists.items()}
    return Named(rows, design.names, tuple(bundle for _, bundle in parts), held), values


def _encode_part(part: _Part, design: Design, place: Place) -> Any:
    return design.encode(part.raw, place)


def _encode_some(part: _Part, design: Design, place: Place) -> tuple[Any, np.ndarray | None]:
    return design.encode_some(part.raw, place)


def _first(encoded: tuple[Any, Any]) -> Any:
    return encoded[0]


def _weights_of(encoded: tuple[Any, np.ndarray | None], part: _Part) -> Any:
    rows, left_out = encoded
    found = _weights(part.beside.get("sample_weight"), left_out)
    return np.ones(rows.shape[0]) if found is None else found


def _get(part: _Part, name: str) -> Any:
    return part.beside[name]


# ---- checks
def _check_features(features: list[Any], named: Mapping[str, str]) -> None:
    if wrong := [name for name in features if not isinstance(name, str)]:
        raise TypeError(
            f"X has columns of levels, and a column name that is no text: {wrong[0]!r}. Convert "
            "names: X.columns = list(map(str, X.columns))"
        )
    if not features:
        raise ValueError(
            f"X has no columns but {', '.join(map(repr, named.values()))}: there is nothing to fit"
        )


def _coded_anyhow(schema: Schema) -> tuple[str, ...]:
    """Columns that are read by codes whatever their dtype."""
    named = schema.categories, schema.splines, schema.polynomials, schema.absorb
    return tuple(name for names in named for name in names or ())


def _roles(named: Mapping[str, str]) -> dict[str, str]:
    return {name: column for name, column in named.items() if name != "y"}
