"""Clusters of rows whose errors are not independent: a code for each row, a label for each code.

Labels are of any kind that pandas can hash. Each block has codes of its own; sums are joined by
label.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from daskglm.core.inference_requests import together
from daskglm.data.values import Place


class Clusters(NamedTuple):
    """Clusters of the rows of a block: codes (n,) int64 and labels (clusters,), each once."""

    codes: np.ndarray
    labels: np.ndarray

    def take(self, rows: np.ndarray) -> Clusters:
        """Return the clusters of some rows; labels that no row has are kept."""
        return Clusters(self.codes[rows], self.labels)


def clusters_of(values: np.ndarray, place: Place) -> Clusters:
    """Number the labels of a block's rows in the order in which they come.

    Raises
    ------
    ValueError
        For NaN and None, with the place, and for labels that cannot be told apart.
    """
    import pandas as pd

    try:
        codes, labels = pd.factorize(values)
    except TypeError as error:
        raise ValueError(f"{place}clusters has values that cannot be labels ({error})") from error
    if (codes < 0).any():
        row = place.row(int(np.argmax(codes < 0)))
        raise ValueError(
            f"clusters contains NaN or None: {row}. Give each row without a cluster a label of its "
            "own, or drop it"
        )
    return Clusters(codes.astype(np.int64, copy=False), np.asarray(labels))


def joined(parts: Sequence[Clusters | None]) -> Clusters | None:
    """Join the clusters of blocks, all of them or none; equal labels are one cluster."""
    import pandas as pd

    known = [part for part in parts if part is not None]
    if not known:
        return None
    codes, labels = pd.factorize(together([part.labels for part in known]))
    cuts = np.cumsum([len(part.labels) for part in known])[:-1]
    maps = np.split(codes.astype(np.int64), cuts)
    moved = [of[part.codes] for of, part in zip(maps, known, strict=True)]
    return Clusters(np.concatenate(moved), np.asarray(labels))
