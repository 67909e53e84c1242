"""Tables with names, on their way into a fit and into what a fitted model is asked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from daskglm.core.arguments import shown
from daskglm.core.warn import warn
from daskglm.data.containers import Named, plain
from daskglm.data.partitions import is_lazy
from daskglm.engines.factory import client_for
from daskglm.engines.local import available_threads
from daskglm.estimators.absorbed import without_empty_levels
from daskglm.estimators.fitted_data import Known
from daskglm.fitting.aliased import dependent_columns
from daskglm.fitting.config import FitConfig
from daskglm.fitting.runner import rows_of
from daskglm.frames.design import NAMED, Design
from daskglm.frames.schema import Schema
from daskglm.frames.take import How, Table, encode, has_levels, is_table, learn
from daskglm.losses.table import find

# Arguments of a penalty that name features.
OF_FEATURES = ("penalty_factor", "lower_bounds", "upper_bounds")


def with_roles(roles: Mapping[str, str], X: Any, beside: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is beside X, with columns of these roles where X has them and nothing is given.

    One of offset and exposure stands for the other, as in `fitted_data.lacks`.
    """
    found = dict(beside)
    if not is_table(X):
        return found
    added = any(beside.get(name) is not None for name in ("offset", "exposure"))
    for role, column in roles.items():
        known = added and role in ("offset", "exposure")
        if role in found and found[role] is None and column in X.columns and not known:
            found[role] = column
    return found


def as_rows(
    X: Any,
    y: Any,
    settings: Any,
    known: Known,
    beside: dict[str, Any],
    schema: Schema,
    client: Any,
    *,
    looks: bool = False,
) -> tuple[Any, Any, Any, Known, dict[str, Any]]:
    """Return data of a fit with tables as rows by codes, and settings for their coefficients.

    Data that are no table, or of plain numbers, are returned as they are. `settings` are those of
    one fit, or a list of them. Of a fit that `looks` itself whether columns depend on others, such
    are left to it. Cost: one pass over the rows of a table.
    """
    given = {"y": y, **beside}
    if schema.clusters is not None:  # no feature
        given["clusters"] = schema.clusters
    if not has_levels(X, given, schema):
        _refuse_factors(settings)
        return X, y, settings, known, beside
    first: FitConfig = settings[0] if isinstance(settings, list) else settings
    penalised, threads = partial(_is_penalised, first), first.threads or available_threads()
    how = How(schema, penalised, bool(first.fit_intercept), threads)
    with client_for(is_lazy(X), client) as running:
        look = None if running is None else partial(_look, running)
        table = learn(X, given, how, look=look, keep=not first.out_of_core)
        if schema.absorb:
            of_loss = find(first.loss)
            table = without_empty_levels(table, of_loss, look, keep=not first.out_of_core)
        in_doubt = math.isinf(first.C) or bool(schema.absorb)
        if in_doubt and not looks:
            table = _without_aliased(table, first, schema, running)
    found = {name: table.beside[name] for name in beside}
    y = table.beside["y"]
    known = known._replace(design=table.design, roles={**known.roles, **table.design.roles})
    if isinstance(settings, list):
        settings = [for_design(each, table.design) for each in settings]
    else:
        settings = replace(for_design(settings, table.design), in_doubt=in_doubt and looks)
    return table.X, y, settings, known, found


def _look(client: Any, parts: Sequence[Any], wanted: Sequence[Any]) -> Any:
    from daskglm.engines.parts import look  # which imports distributed

    return look(client, parts, wanted)


class AliasedColumnWarning(UserWarning):
    """Columns depend on others, and have been left out of a fit without a penalty."""


def _without_aliased(table: Table, settings: FitConfig, schema: Schema, client: Any) -> Table:
    """Return a table without columns that depend on others, which a warning names.

    Raises ValueError for them where the schema says so.
    """
    loss, design, rows = find(settings.loss), table.design, table.X
    if design.absorbed:
        factor = np.where(design.reported, 1.0, 0.0) if math.isfinite(settings.C) else None
        penalty = replace(settings.penalty, penalty_factor=factor)
        settings = replace(settings, fit_intercept=False, penalty=penalty)
    if rows.held:  # the fit wants them after this
        from daskglm.engines.parts import again

        rows = replace(rows, held=again(rows.held))
    data = rows_of(rows, loss=loss, **table.beside)
    found = dependent_columns(data, settings, client)
    if not found:
        return table
    names = [design.names[j] for j in found]
    # effects of levels that are not reported are as good without
    if reported := [design.names[j] for j in found if design.reported[j]]:
        told = f"{len(reported):,} columns depend on others before them: "
        told += ", ".join(reported[:NAMED])
        if schema.aliased == "error":
            raise ValueError(f"{told}; leave them out, or give aliased='drop'")
        warn(f"{told}; they are left out, as aliased='drop' says", AliasedColumnWarning)
    return table.by(replace(design, aliased=tuple(names)))


def encoded(
    model: Any, X: Any, beside: Mapping[str, Any], *, weigh: bool = True
) -> tuple[Any, dict[str, Any]]:
    """Return a table as rows of a fitted model's coefficients, and what is beside them.

    Rows of a model that was not fitted to a table are returned as they are. Those of levels that
    the fit has left out `weigh` nothing, or are refused; see `take.encode`.
    """
    design = design_of_model(model)
    if design is None or isinstance(X, Named):
        return X, dict(beside)
    return encode(as_table(X, design), beside, design, weigh=weigh)


def design_of_model(model: Any) -> Design | None:
    """Return the design of a model that was fitted to a table with levels, or None."""
    return getattr(model, "schema_", None)


def check_levels(model: Any, design: Design | None) -> None:
    """Raise ValueError where a fit by `design` cannot start from the coefficients of a model."""
    before, now = ([] if of is None else of.names for of in (design_of_model(model), design))
    if list(before) != list(now):
        pairs = (before, set(now)), (now, set(before))
        gone, new = ([name for name in these if name not in those] for these, those in pairs)
        raise ValueError(
            f"warm_start=True, but the coefficients are not those of the last fit: gone are "
            f"{shown(gone[:NAMED])}, new are {shown(new[:NAMED])}. Fit with warm_start=False"
        )


def count_of_coefficients(model: Any) -> int:
    """Return the number of coefficients of features."""
    design = design_of_model(model)
    return int(model.n_features_in_) if design is None else len(design.names)


def as_table(X: Any, design: Design) -> Any:
    """Return X as a table: a series or a dict of values is one row.

    Raises TypeError for what has no names.
    """
    X = plain(X)
    if isinstance(X, pd.Series):
        return X.to_frame().T.infer_objects()
    if isinstance(X, Mapping):
        one = not any(np.ndim(value) for value in X.values())
        return pd.DataFrame([dict(X)] if one else dict(X))
    if is_table(X):
        return X
    raise TypeError(
        f"X is a {type(X).__name__}, but the model was fitted to a table with the columns "
        f"{shown(list(design.columns))}: give a dataframe, or a dict of values"
    )


# ---- settings
def _is_penalised(settings: FitConfig, column: str) -> bool:
    """Return whether the coefficients of a column have a penalty."""
    factors = settings.penalty.penalty_factor
    given = factors.get(column, 1.0) if isinstance(factors, Mapping) else 1.0
    return math.isfinite(settings.C) and given != 0.0


def for_design(settings: FitConfig, design: Design) -> FitConfig:
    """Return settings whose penalty names coefficients where the user's names columns."""
    penalty = settings.penalty
    changed: dict[str, Any] = {
        name: _spread_out(given, design)
        for name in OF_FEATURES
        if isinstance(given := getattr(penalty, name), Mapping)
    }
    if isinstance(penalty.groups, str):
        changed["groups"] = design.groups
    if design.absorbed:  # the levels of one are the constant
        settings = replace(settings, fit_intercept=False)
    if design.absorbed and math.isfinite(settings.C):
        given = changed.get("penalty_factor", penalty.penalty_factor)
        if given is not None and not isinstance(given, Mapping):
            raise ValueError(
                f"penalty_factor={shown(given)}: give it by name of a column, since some are "
                "absorbed"
            )
        free = {name: 0.0 for factor in design.of_absorbed for name in factor.names}
        kept = {name: 0.0 for name in design.names if name in free}
        changed["penalty_factor"] = {**(given or {}), **kept}
    return settings if not changed else replace(settings, penalty=replace(penalty, **changed))


def _spread_out(given: Mapping[str, Any], design: Design) -> dict[str, Any]:
    """Return numbers by coefficient, of which a name of a column means all of it."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        names = [] if name in design.names else design.columns_of(name)
        found |= dict.fromkeys(names or [name], value)
    return found


def _refuse_factors(settings: Any) -> None:
    """Raise ValueError for groups by factor of rows that have none."""
    for each in settings if isinstance(settings, list) else [settings]:
        if isinstance(each.penalty.groups, str):
            raise ValueError(
                f"groups={each.penalty.groups!r} wants a table with factors: give a dataframe with "
                "columns of text or categories, or groups of features by number"
            )
