"""The losses by name: those of this package, and those that `register_loss` adds from outside."""

from __future__ import annotations

import importlib
import math
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from daskglm.core.arguments import check_choice
from daskglm.core.requests import LossRef
from daskglm.losses.base import OUTSIDE, Law, Loss
from daskglm.losses.builtin import BUILTIN
from daskglm.losses.dispatch import compile_tile
from daskglm.losses.multinomial import LOSS as MULTINOMIAL
from daskglm.losses.ordinal import LINKS

LOSSES: dict[str, Loss] = {loss.name: loss for loss in BUILTIN}
# losses of all classes together, no functions of one margin, which have kernels of their own
JOINT_LOSSES: dict[str, Loss] = {
    loss.name: loss for loss in (MULTINOMIAL, *(link.loss for link in LINKS.values()))
}
# formulas over rows, compiled, by what they are made of
_compiled: dict[tuple[Any, ...], Any] = {}
_compiling = threading.Lock()

_WITH_PARAMETER = re.compile(r"(?P<name>\w+)\s*\((?P<value>[^()]*)\)")

# Margins at which formulas are checked; then the step of finite differences, and the error allowed.
_MARGINS = np.linspace(-9.7, 9.7, 98)
_STEP = 1e-4
_TOLERANCE = 1e-5


def register_loss(loss: Loss) -> Loss:
    """Make a loss from outside of this package known to `fit` under its name.

    Call it where the module that defines the loss is imported: workers of a cluster import that
    module when a fit with the loss first asks them for something, so they must be able to (an
    installed package, or `client.upload_file`). To register the same name again from the same
    module replaces it.

    Parameters
    ----------
    loss : Loss
        With `row`, `classifies` and `smoothness`; what else is known makes more solvers and better
        certificates possible. Of losses from outside the CPU kernels use `row` only: they have no
        `dual`, so that `sdca` does not take them, and no CUDA code. Of losses with `of_margins`
        `row` is the loss of the difference of two margins, and `kernels.class_losses.register`
        makes known what kernels use.

    Returns
    -------
    Loss
        The loss as it is known now.

    Raises
    ------
    ValueError
        For a name that is taken, a loss with a dual, or formulas that contradict each other:
        negative values, a slope that is not the derivative of the value, a curvature that is not
        that of the slope or exceeds `smoothness`.
    """
    module = loss.row.__module__
    known = (LOSSES | JOINT_LOSSES).get(loss.name)
    if known is not None and known.module != module:
        owner = known.module or "daskglm"
        raise ValueError(f"the name {loss.name!r} is that of a loss of {owner}; take another")
    if loss.dual is not None or loss.code != OUTSIDE:
        raise ValueError(
            f"loss {loss.name!r}: a loss from outside of daskglm has no dual and no code of its own"
        )
    if not loss.differentiable:
        raise ValueError(
            f"loss {loss.name!r} is not differentiable and has no dual: no solver takes it"
        )
    if loss.classifies and not loss.attains_infimum and loss.intercept_radius is None:
        raise ValueError(
            f"loss {loss.name!r} never attains its infimum, so it needs an intercept_radius"
        )
    _check_formulas(loss)
    _address_of(loss.row)  # a formula that numba cannot compile fails here, not amid a fit
    registered = replace(loss, module=module)
    table = LOSSES if loss.of_margins is None else JOINT_LOSSES
    table[loss.name] = registered
    return registered


def find(name: Any) -> Loss:
    """Return the loss that a user names: a name of the table, perhaps with a parameter.

    The parameter is a number in parentheses, as in "huber(1.35)"; without it, the default is taken.

    Raises
    ------
    ValueError
        For an unknown name, and for a parameter that is none or out of range.
    """
    if isinstance(name, str) and name in LOSSES:
        return LOSSES[name]
    if isinstance(name, str) and name in JOINT_LOSSES:
        return JOINT_LOSSES[name]
    match = _WITH_PARAMETER.fullmatch(name) if isinstance(name, str) else None
    base = match["name"] if match else name
    check_choice(base, "loss", (*LOSSES, *JOINT_LOSSES))
    assert match is not None
    known = (LOSSES | JOINT_LOSSES)[base]
    value, comma, exponent = match["value"].partition(",")
    found = known.with_parameter(_number(value, f"loss={name!r}"))
    if not comma:
        return found
    if known.at_exponent is None:
        raise ValueError(f"loss={name!r}: {match['value']!r} is not a number")
    return known.at_exponent(found, _number(exponent, f"loss={name!r}"))


def _number(text: str, where: str) -> float:
    """Return the number that a text is; ValueError for others."""
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"{where}: {text.strip()!r} is not a number") from error


def for_classes(loss: Loss, count: int) -> Loss:
    """Return the loss that fits so many classes: for two another may take its place."""
    return find(loss.two_classes) if loss.two_classes and count == 2 else loss


def law_of(ref: LossRef, *, compiled: bool = True, curvature: str = "observed") -> Law:
    """Return the law of the loss that a request names.

    Kernels on margins want the loss `compiled`; those of a device and of the dual have it in them.
    `curvature` says what compiled losses return as such: see `dispatch.CURVATURES`. Raises
    ValueError for an unknown loss.
    """
    known = loss_of(ref)
    bounded = known.link is not None and known.link.is_bounded
    address = 0
    if compiled:
        address = _address_of(known.row, curvature, known.fisher, bounded=bounded)
    return known.code, ref.p1, ref.p2, address


def loss_of(ref: LossRef) -> Loss:
    """Return the loss that a request names, whose module is imported if need be.

    Raises ValueError for an unknown loss.
    """
    if ref.name not in LOSSES and ref.name not in JOINT_LOSSES and ref.module:
        try:
            importlib.import_module(ref.module)
        except ImportError as error:
            raise ValueError(
                f"loss {ref.name!r}: this worker cannot import {ref.module!r}, which defines it "
                f"({error}). Install that module on all workers, or send it by client.upload_file"
            ) from error
    known = JOINT_LOSSES.get(ref.name) or LOSSES.get(ref.name)
    if known is None:
        raise ValueError(f"loss {ref.name!r} is not one of {sorted(LOSSES)}")
    if (known.p1, known.p2) == (ref.p1, ref.p2):
        return known
    return _at(known, ref.p1, ref.p2)


@lru_cache(maxsize=64)  # each request of a fit asks
def _at(known: Loss, p1: float, p2: float) -> Loss:
    """Return a loss with these parameters."""
    found = known if known.at is None else known.at(p1)
    if known.at_exponent is not None:
        return known.at_exponent(found, p2)
    return replace(found, p1=p1, p2=p2)


def loss_of_family(family: Any, link: Any = "auto") -> Loss:
    """Return the loss of a family of distributions and a link.

    Parameters
    ----------
    family : str
        Its name, for some with a parameter: "tweedie(1.5)", "negative_binomial(0.5)". Losses that
        are of no family go by their own names: "huber(1.35)".
    link : str, default "auto"
        "auto" is the first link that the table has for the family. "power(0.5)" is the link mu^0.5
        of families that have the link "power".

    Raises
    ------
    ValueError
        For unknown names, and for links that the family does not have.
    """
    match = _WITH_PARAMETER.fullmatch(family) if isinstance(family, str) else None
    name = match["name"] if match else family
    known = [loss for loss in LOSSES.values() if loss.family and loss.family.name == name]
    if not known:
        others = tuple(loss.name for loss in LOSSES.values() if not loss.classifies)
        families = dict.fromkeys(loss.family.name for loss in LOSSES.values() if loss.family)
        check_choice(name, "family", tuple(dict.fromkeys([*families, *others])))
        check_choice(link, f"link of family={family!r}", ("auto",))
        return find(family)
    links = {loss.link.name: loss for loss in known if loss.link}
    raised = _WITH_PARAMETER.fullmatch(link) if isinstance(link, str) else None
    chosen = raised["name"] if raised and raised["name"] in links else link
    check_choice(chosen, f"link of family={family!r}", ("auto", *links))
    loss = known[0] if chosen == "auto" else links[chosen]
    found = find(f"{loss.name}({match['value']})") if match else loss
    if raised is None:
        return found
    if found.at_exponent is None:
        raise ValueError(f"link={link!r}: the link {chosen!r} takes no exponent")
    return found.at_exponent(found, _number(raised["value"], f"link={link!r}"))


# Of each link a convex loss of positive means, from whose optimum losses that are not may start.
_CONVEX = {"log": "poisson", "identity": "poisson_identity", "inverse": "gamma_inverse"}


def convex_beside(loss: Loss) -> Loss | None:
    """Return a convex loss of the same link and the same targets, None where there is none here.

    Of positive targets with the logarithm that is gamma, whose errors are relative ones as those
    of larger powers of the variance.
    """
    family, link = loss.family, loss.link
    if family is None or link is None or math.isfinite(family.domain.high):
        return None
    positive = family.domain.open and link.name == "log"
    name = "gamma" if positive else _CONVEX.get(link.name)
    return None if name is None else LOSSES[name]


def _address_of(
    row: Callable[..., Any],
    curvature: str = "observed",
    fisher: Callable[..., Any] | None = None,
    *,
    bounded: bool = False,
) -> int:
    """Compile a loss over rows, once; its address is in use as long as this process is."""
    key = row, curvature, fisher, bounded
    if key not in _compiled:
        with _compiling:
            if key not in _compiled:  # another thread may have compiled it meanwhile
                _compiled[key] = compile_tile(row, curvature, fisher, bounded=bounded)
    return int(_compiled[key].address)


def _check_formulas(loss: Loss) -> None:
    """Raise ValueError where the formulas contradict each other at ordinary margins."""

    def at(y: float, z: float) -> tuple[float, float, float]:
        return loss.row(y, z, loss.p1, loss.p2)

    for y in (-1.0, 1.0):
        for z in _MARGINS.tolist():
            value, slope, curvature = at(y, z)
            low, high = at(y, z - _STEP), at(y, z + _STEP)
            size = _TOLERANCE * (1.0 + abs(value) + abs(slope) + abs(curvature))
            by_value = (high[0] - low[0]) / (2.0 * _STEP)
            by_slope = (high[1] - low[1]) / (2.0 * _STEP)
            where = f"loss {loss.name!r}, at y={y:g} and z={z:.3g}:"
            if not math.isfinite(value + slope + curvature) or value < -size:
                raise ValueError(f"{where} value {value:g}; it must be finite and not negative")
            if not abs(slope - by_value) <= size:
                raise ValueError(f"{where} slope {slope:g}, but the value rises by {by_value:g}")
            if math.isfinite(loss.self_concordance) and not abs(curvature - by_slope) <= size:
                raise ValueError(
                    f"{where} curvature {curvature:g}, but the slope rises by {by_slope:g}"
                )
            if not -size <= curvature <= loss.smoothness + size:
                raise ValueError(
                    f"{where} curvature {curvature:g}, not between 0 and smoothness="
                    f"{loss.smoothness:g}"
                )
