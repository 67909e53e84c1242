"""The record of a fit in a file of a model; files may come from anybody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from daskglm.core.arguments import check_choice, shown
from daskglm.estimators.json_values import param, plain
from daskglm.estimators.parameters import inverse
from daskglm.fitting import schema
from daskglm.fitting.config import FitConfig
from daskglm.fitting.record import KINDS, OPTIMUM, RELAXED, FitRecord, RowsMark
from daskglm.losses.base import Loss
from daskglm.losses.table import find
from daskglm.penalties.config import PLAIN, PenaltyConfig

# Losses that a fit may have found the parameter of, by the name of the parameter.
FOUND = {
    "theta": ("negative_binomial", "poisson"),
    "power": ("tweedie",),
    "scale": ("huber",),
}
OF_FAMILIES = ("theta", "power")
# In the place of a field of the penalty: it is the parameter of this name.
AS_GIVEN = {"param": True}
_SINGLE = ("C", "dispersion", "scale")
_KEYS = (
    *("loss", "average", "fit_intercept", "class_weight", "penalty", "rows", "estimated", "kind"),
    *_SINGLE,
)


def to_json(record: FitRecord, model: Any) -> dict[str, Any]:
    """Return the record of a fitted model as strict JSON.

    Fields of the penalty that are parameters of the model, and may be large, are not told twice.
    """
    given = model.get_params(deep=False)
    penalty: dict[str, Any] = {}
    for field in fields(PenaltyConfig):
        value = getattr(record.penalty, field.name)
        if value is not None and field.name in schema.LISTS and value is given.get(field.name):
            penalty[field.name] = AS_GIVEN
        elif value is not field.default:
            penalty[field.name] = param(field.name, value)
    rows = record.rows
    return {
        "loss": record.loss,
        "average": record.average,
        "fit_intercept": record.fit_intercept,
        "class_weight": plain(record.class_weight, "class_weight"),
        "penalty": penalty,
        "rows": None if rows is None else _rows_to_json(rows),
        "estimated": record.estimated,
        "kind": record.kind,
        **{name: plain(float(getattr(record, name)), name) for name in _SINGLE},
    }


def _rows_to_json(rows: RowsMark) -> dict[str, Any]:
    return {
        name: [[label, float(weight)] for label, weight in value]
        if name == "classes"
        else plain(value, name)
        for name, value in rows._asdict().items()
    }


def from_json(saved: Any, params: Mapping[str, Any]) -> FitRecord:
    """Check and return a record; `params` are the parameters of the file.

    Raises ValueError for what no fit has.
    """
    if not isinstance(saved, dict) or set(saved) != set(_KEYS):
        raise ValueError(f"of what was fitted it has {shown(saved)}, not {sorted(_KEYS)}")
    numbers: dict[str, Any] = {
        name: schema.number(schema.special(saved[name]), name, finite=False) for name in _SINGLE
    }
    record = FitRecord(
        loss=schema.text(saved["loss"], "loss"),
        average=schema.flag(saved["average"], "average"),
        fit_intercept=schema.flag(saved["fit_intercept"], "fit_intercept"),
        class_weight=schema.special(saved["class_weight"]),
        penalty=_penalty(saved["penalty"], params),
        rows=None if saved["rows"] is None else _rows(saved["rows"]),
        estimated=saved["estimated"],
        kind=saved["kind"],
        **numbers,
    )
    record.settings().check(one_fit=True)
    check_choice(record.kind, "kind", KINDS)
    if record.estimated is not None:
        check_choice(record.estimated, "estimated", tuple(FOUND))
        check_choice(record.of_loss.name, "loss", FOUND[record.estimated])
    if not 0.0 < record.scale < float("inf"):
        raise ValueError(f"scale is {record.scale}, which is not a number above 0")
    return record


def _penalty(saved: Any, params: Mapping[str, Any]) -> PenaltyConfig:
    names = {field.name for field in fields(PenaltyConfig)}
    if not isinstance(saved, dict) or not set(saved) <= names:
        raise ValueError(f"the penalty of the fit is {shown(saved)}")
    given: dict[str, Any] = {}
    for name, value in saved.items():
        of = params.get(name) if value == AS_GIVEN else value
        given[name] = schema.items(of) if name in schema.LISTS else schema.special(of)
    penalty = replace(PLAIN, **given)
    penalty.check()
    return penalty


def _rows(saved: Any) -> RowsMark:
    if not isinstance(saved, dict) or set(saved) != set(RowsMark._fields):
        raise ValueError(f"of the rows of the fit it has {shown(saved)}")
    found = {
        name: schema.number(schema.special(value), name, finite=False)
        for name, value in saved.items()
        if name not in ("used", "classes")
    }
    classes = saved["classes"]
    if not isinstance(classes, list) or any(
        not isinstance(each, list) or len(each) != 2 or not isinstance(each[0], str)
        for each in classes
    ):
        raise ValueError(f"the classes of the rows are {shown(classes)}")
    labels = tuple((label, schema.number(weight, "a weight", 0.0)) for label, weight in classes)
    return RowsMark(used=schema.integer(saved["used"], "used", 1), **found, classes=labels)


def of_first_version(model: Any, settings: FitConfig, content: Mapping[str, Any]) -> FitRecord:
    """Return the record of a file of version 1, from its parameters and what the fit found.

    Raises ValueError for a value that the fit has not found, and where one is lacking.
    """
    classes = content["classes"]
    loss, C, penalty = find(settings.loss), settings.C, settings.penalty
    estimated, scale = None, 1.0
    if loss.two_classes and len(classes["values"]) == 2:
        loss = find(loss.two_classes)
    found = content.get("family_parameter")
    if getattr(model, "_estimates", False) != ("family_parameter" in content):
        without = "out" * ("family_parameter" not in content)
        raise ValueError(f"a {type(model).__name__} with{without} an estimated parameter")
    if "family_parameter" in content:
        loss, estimated = _with_found(loss, schema.number(found, "family_parameter", 0.0))
    if "scale" in content:
        scale = schema.number(content["scale"], "scale", 0.0)
        estimated = "scale" if model.scale is None else None
        loss = find(f"huber({float(model.epsilon) * scale!r})")
        C = C / scale
    kind = OPTIMUM
    if isinstance(tried := content.get("tried"), dict):
        C = inverse(schema.number(tried.get("alpha"), "alpha", 0.0))
        ratio = schema.number(tried.get("l1_ratio"), "l1_ratio")
        penalty, kind = replace(penalty, l1_ratio=ratio), RELAXED if model.relax else OPTIMUM
    return FitRecord(
        loss.full_name,
        C,
        settings.average,
        penalty,
        bool(settings.fit_intercept),
        settings.class_weight,
        estimated=estimated,
        scale=scale,
        kind=kind,
    )


def _with_found(family: Loss, value: float) -> tuple[Loss, str]:
    """Return the loss with the parameter that was found, and its name; 0 is Poisson."""
    assert family.parameter is not None
    name = family.parameter.name
    if value == 0.0 and name == "theta":
        return find("poisson"), name
    return family.with_parameter(value), name
