"""From data to an engine that holds them, checked, and the problems to solve there: one, or one per
class.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from daskglm.core.engine import Engine
from daskglm.core.facts import DataSummary
from daskglm.core.requests import Problem
from daskglm.data.partitions import Partitions
from daskglm.engines.factory import client_for, make_engine
from daskglm.fitting.config import FitConfig
from daskglm.losses.base import Loss
from daskglm.losses.ordinal import check_link
from daskglm.losses.table import JOINT_LOSSES, find, for_classes


@dataclass(frozen=True)
class Loaded:
    """An engine, all classes in order (None: regression), problems, and weights of both sides."""

    engine: Engine
    classes: np.ndarray | None
    problems: list[tuple[Problem, tuple[float, ...]]]
    seconds: float


@contextlib.contextmanager
def loaded(data: Partitions, settings: FitConfig, client: Any) -> Iterator[Loaded]:
    """Hold the rows for as long as the context lasts.

    Raises ValueError for data that no model can be fitted to.
    """
    loss, began = find(settings.loss), time.perf_counter()
    with (
        client_for(data.arrays is None, client) as running,
        contextlib.closing(
            make_engine(
                data,
                running,
                settings.where(workers=running is not None),
                read=settings.out_of_core,
                threads=settings.threads,
            )
        ) as engine,
    ):
        check_facts(engine.facts, loss)
        if not engine.facts.n_features:
            _check_constant(loss, settings)
        loss = for_classes(loss, len(engine.facts.classes))
        known = loss.runs_on_gpu or (loss.name in JOINT_LOSSES and not loss.module)
        if engine.capabilities.device != "cpu" and not known:
            raise ValueError(
                f"loss={loss.name!r} is not of this package and has no CUDA code, but the rows are "
                "on a GPU; use device='cpu'"
            )
        if engine.capabilities.device != "cpu":
            check_link(loss)
        classes, problems = problems_of(engine.facts, loss, settings)
        yield Loaded(engine, classes, problems, time.perf_counter() - began)


def check_facts(facts: DataSummary, loss: Loss) -> None:
    """Raise ValueError for data that no model can be fitted to."""
    if facts.n_rows == 0:
        raise ValueError(
            f"X has no rows: Found array with 0 sample(s) (shape=(0, {facts.n_features})) while a "
            "minimum of 1 is "
            "required."
        )
    if not facts.weight > 0:
        raise ValueError(
            "all sample weights are zero: there is nothing to fit. Give some rows a weight above "
            "0, or leave sample_weight out"
        )
    loss.check_targets(facts)


def _check_constant(loss: Loss, settings: FitConfig) -> None:
    """Raise ValueError where the intercept alone cannot be fitted, of X without columns."""
    if not settings.fit_intercept:
        raise ValueError("X has no columns, and fit_intercept=False: there is nothing to fit")
    if loss.classifies and not loss.differentiable:
        raise ValueError(
            f"X has no columns, and loss={loss.name!r} wants one: its best constants are those of "
            "the larger class; give a smooth loss"
        )


def problems_of(
    facts: DataSummary, loss: Loss, settings: FitConfig
) -> tuple[np.ndarray | None, list[tuple[Problem, tuple[float, ...]]]]:
    """Return the classes, and each problem with the weights of its positive and negative rows.

    A loss of all classes together has one problem, with the weights of all.
    """
    if not loss.classifies:
        return None, [(Problem(loss.ref), (facts.weight, 0.0))]
    try:
        ordered = sorted(facts.classes, key=lambda entry: entry[0])
    except TypeError as error:
        raise ValueError(f"labels of different kinds cannot be ordered: {error}") from error
    factors = _class_factors(ordered, settings.class_weight)
    weights = {label: weight * factors.get(label, 1.0) for label, _, weight in ordered}
    total = sum(weights.values())
    positives = [ordered[1][0]] if len(ordered) == 2 else [label for label, _, _ in ordered]
    problems: list[tuple[Problem, tuple[float, ...]]] = [
        (
            Problem(loss.ref, label, tuple(factors.items())),
            (weights[label], total - weights[label]),
        )
        for label in positives
    ]
    if loss.name in JOINT_LOSSES:
        problems = [(Problem(loss.ref, None, tuple(factors.items())), tuple(weights.values()))]
    if not total > 0:
        raise ValueError(
            f"class_weight={settings.class_weight!r} leaves no row of y with weight: nothing to fit"
        )
    labels = [label for label, _, _ in ordered]
    # of frames and arrays of objects; those of NumPy are np.str_
    objects = any(type(label) is str for label in labels)
    return np.array(labels, dtype=object if objects else None), problems


def _class_factors(ordered: list[tuple[Any, int, float]], class_weight: Any) -> dict[Any, float]:
    if class_weight is None:
        return {}
    if class_weight == "balanced":
        total = sum(weight for _, _, weight in ordered)
        return {
            label: total / (len(ordered) * weight) for label, _, weight in ordered if weight > 0
        }
    labels = [label for label, _, _ in ordered]
    unknown = [label for label in class_weight if label not in labels]
    # scikit-learn refuses that too: a misspelling
    if unknown and any(label not in class_weight for label in labels):
        raise ValueError(
            f"class_weight names {unknown}, which y does not have, but not all labels that it "
            "has: "
            f"{[getattr(label, 'item', lambda label=label: label)() for label in labels]}"
        )
    return {label: float(weight) for label, weight in class_weight.items()}
