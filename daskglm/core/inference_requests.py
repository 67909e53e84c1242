"""Requests for what statistical inference is made of, and sums over clusters of rows.

Like those of `requests`, they are frozen, picklable and complete, and replies are dictionaries of
sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class InferenceSums:
    """Add up what covariances of coefficients are made of. 1 pass, whatever is asked for.

    Parameters
    ----------
    w : array
        Of one margin a row and of ordered classes: as of `requests.Evaluate`. Of a softmax (p,):
        coefficients of all classes but the first, class after class, each with its intercept last
        if there is one; those of the first class are zero.
    curvature : {"fisher", "observed"}
        Expected or second derivatives in the bread; of several classes they are second ones.
    meat : bool
        Whether squares of scores are summed.
    frequency : bool
        Whether a weight counts equal rows, each with a score of its own, rather than multiplies
        the score of one.
    clusters : bool
        Whether scores are summed by cluster.
    bread : bool
        Whether the bread is summed; else it has no rows.

    Reply, over rows of weight s with the slope g and the curvatures h (of `curvature`) and f
    (expected), and x with a one where there is an intercept: value (sum of s loss), gradient,
    bread (sum s h x x'), pearson (sum s g^2 / f), weight (sum s), used (rows with s > 0),
    fractions (rows with an s that is no whole number), rows, and where asked for meat
    (sum s^2 g^2 x x', or s g^2 x x' with `frequency`) and clusters (`ClusterSums` of s g x). Upper
    triangles of matrices are filled. Of several classes pearson is nan.
    """

    w: np.ndarray
    curvature: str = "fisher"
    meat: bool = False
    frequency: bool = False
    clusters: bool = False
    bread: bool = True


@dataclass(frozen=True)
class ScoresAlong:
    """Add up derivatives of losses along some directions, of one margin a row. 1 pass.

    Parameters
    ----------
    w : array
        As of `InferenceSums`.
    directions : (p, r) array
        Of coefficients, the intercept last if there is one.
    frequency : bool
        As of `InferenceSums`.
    clusters : bool
        Whether sums by cluster are wanted, rather than products.

    Reply: rows; meat (r, r), all of it, or clusters (`ClusterSums` of r numbers each): as of
    `InferenceSums`, with x' directions in the place of x.
    """

    w: np.ndarray
    directions: np.ndarray
    frequency: bool = False
    clusters: bool = False


@dataclass(frozen=True)
class LeverageMeat:
    """Add up squares of scores that are divided by powers of 1 - h, h a row's leverage. 1 pass.

    The leverage of a row is h = s f x' P x, with the weight s and the curvature f at its margin.

    Parameters
    ----------
    w : array
        As of `InferenceSums`.
    inverse : (p, p) array
        P, the inverse of the Hessian of the objective.
    power : float
        Of 1 - h, by which scores are divided.
    curvature, frequency
        As of `InferenceSums`; with `frequency` h is that of one of the equal rows, f x' P x.

    Reply: meat, its upper triangle; full (rows of weight above zero with 1 - h within rounding of
    zero, which are left out); rows.
    """

    w: np.ndarray
    inverse: np.ndarray
    power: float
    curvature: str = "fisher"
    frequency: bool = False


@dataclass(frozen=True, eq=False)
class ClusterSums:
    """Sums (clusters, size) by label of a cluster; adding joins sums of the same label.

    Each label occurs once.
    """

    labels: np.ndarray
    sums: np.ndarray

    def __add__(self, other: ClusterSums) -> ClusterSums:
        import pandas as pd

        codes, labels = pd.factorize(together([self.labels, other.labels]))
        sums = np.zeros((len(labels), self.sums.shape[1]))
        sums[codes[: len(self.labels)]] = self.sums
        sums[codes[len(self.labels) :]] += other.sums
        return ClusterSums(np.asarray(labels), sums)

    @property
    def nbytes(self) -> int:
        """Bytes of both arrays."""
        return self.labels.nbytes + self.sums.nbytes


def together(labels: list[np.ndarray]) -> np.ndarray:
    """Join arrays of labels; those of different kinds become objects, not strings."""
    kinds = {part.dtype.kind for part in labels if len(part)}
    numbers = kinds <= set("biuf")
    if len(kinds) > 1 and not numbers:
        labels = [part.astype(object) for part in labels]
    return np.concatenate(labels)


InferenceRequest = InferenceSums | ScoresAlong | LeverageMeat
