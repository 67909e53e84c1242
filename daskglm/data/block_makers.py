"""From the parts of a partition, X and what is beside it, to its block: as tasks of Dask, or where
workers hold the parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from daskglm.data.alignment import is_frame, unbundle
from daskglm.data.blocks import Block, to_block, with_order
from daskglm.data.values import Place
from daskglm.losses.family import Domain

# What may be given beside X, in the order of `to_block`.
BESIDE = ("y", "sample_weight", "offset", "exposure", "clusters")


def lazy_blocks(parts: Sequence[Any], makers: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return delayed blocks of parts as `bundles` gives them, each with its settings."""
    import dask

    make = dask.delayed(block_of_parts)
    return [make(part, **settings) for part, settings in zip(parts, makers, strict=True)]


def cut_alike(X: Any, beside: Mapping[str, Any]) -> dict[str, Any]:
    """Return X and what is beside it where each has as many partitions of the same kind."""
    alike = all(
        is_frame(values) == is_frame(X) and values.npartitions == X.npartitions
        for values in beside.values()
    )
    return {"X": X, **beside} if alike else {}


def block_of_parts(
    parts: dict[str, Any],
    *,
    place: Place,
    features: list[Any] | None = None,
    named: Mapping[str, str] = MappingProxyType({}),
    constants: Mapping[str, float] = MappingProxyType({}),
    **how: Any,
) -> Block:
    """Make the block of a partition, of parts as `bundles` gives them.

    `features` are those of a frame, in which what is beside them may be `named`.
    """
    X, given = unbundle(parts, place)
    given |= {name: X[column] for name, column in named.items()}
    given |= constants
    beside = [given.get(name) for name in BESIDE]
    if features is None:
        return to_block(X, *beside, place=place, **how)
    return with_order(to_block(X[features], *beside, place=place, **how))


def block_of_run(
    run: tuple[Any, ...],
    columns: tuple[str, ...] | None,
    classify: bool,
    domain: Domain | None,
) -> Block:
    """Make the block of a run of rows that `Partitions.split` has cut."""
    place = Place(None, columns, run[0])
    return to_block(*run[1:], place=place, classify=classify, domain=domain)
