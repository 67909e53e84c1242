"""A penalty for the features of some data: what a user gives by name or by column, as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from daskglm.core.arguments import shown
from daskglm.penalties.checks import are_lists, numbers


@dataclass(frozen=True, eq=False)
class ResolvedPenalty:
    """A penalty on the coefficients of d features, as arrays of float64.

    Parameters
    ----------
    l1_ratio : float
    factors : (d,) array, or None
        Factors of both parts, beside a matrix of the L1 part alone; None: ones. Infinite ones leave
        a feature out.
    P2 : (d, d) array, or None
        Matrix of the L2 part; None: the identity.
    lower, upper : (d,) array, or None
        Bounds of coefficients; None: no bounds.
    groups : list of (size,) arrays of int, or None
        Features of each group, every feature in one group.
    standardize : bool
    outputs : int, default 1
        Sets of d coefficients, one set after the other, that have this penalty, each its own;
        groups are of all sets.
    """

    l1_ratio: float
    factors: np.ndarray | None
    P2: np.ndarray | None
    lower: np.ndarray | None
    upper: np.ndarray | None
    groups: list[np.ndarray] | None
    standardize: bool
    outputs: int = 1

    @cached_property
    def left_out(self) -> np.ndarray:
        """Which features are left out, as an array of bool that broadcasts to (d,)."""
        return np.isinf(np.zeros(1) if self.factors is None else self.factors)

    @cached_property
    def finite_factors(self) -> np.ndarray | None:
        """The factors, with ones for features that are left out."""
        if self.factors is None or not self.left_out.any():
            return self.factors
        return np.where(self.left_out, 1.0, self.factors)

    def repeated(self, outputs: int, n_features: int) -> ResolvedPenalty:
        """Return the penalty of so many sets of coefficients, (outputs * n_features,) arrays.

        A group has the members of all sets.
        """

        def tiled(values: np.ndarray | None) -> np.ndarray | None:
            return None if values is None else np.tile(values, outputs)

        groups = None
        if self.groups is not None:
            sets = n_features * np.arange(outputs)[:, None]
            groups = [(sets + group).ravel() for group in self.groups]
        return replace(
            self,
            factors=tiled(self.factors),
            P2=None if self.P2 is None else np.kron(np.eye(outputs), self.P2),
            lower=tiled(self.lower),
            upper=tiled(self.upper),
            groups=groups,
            outputs=outputs,
        )


class FeatureNames:
    """The features of some data, by number or by name, of which parameters are made arrays.

    Parameters
    ----------
    n_features : int
    names : sequence of str, or None
        None: the features have no names.
    """

    def __init__(self, n_features: int, names: Sequence[str] | np.ndarray | None) -> None:
        self.n_features = n_features
        self.names = None if names is None else [str(name) for name in names]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: j for j, name in enumerate(self.names or ())}

    def find(self, name: Any, what: str) -> int:
        """Return the number of the feature of this name; raise ValueError if there is not one."""
        if self.names is None:
            raise ValueError(
                f"{what} has the feature {shown(name)}, but the columns of X have no names; give "
                "an array in the order of the columns"
            )
        if name not in self._places:
            known = ", ".join(map(repr, self.names[:8]))
            more = ", ..." if len(self.names) > 8 else ""
            raise ValueError(
                f"{what} has the feature {shown(name)}, which X does not have; its features are "
                f"{known}{more}"
            )
        if (count := self.names.count(name)) > 1:
            raise ValueError(
                f"{what} has the feature {shown(name)}, a name of {count} columns of X; give an "
                "array in the order of the columns"
            )
        return self._places[name]

    def values(self, given: Any, what: str, default: float) -> np.ndarray | None:
        """Return one number for each feature; None where nothing is given."""
        if given is None:
            return None
        if isinstance(given, Mapping):
            out = np.full(self.n_features, default)
            for name, value in given.items():
                out[self.find(name, what)] = float(value)
            return out
        values = numbers(given, what, ndim=np.ndim(given))
        if values.ndim and len(values) != self.n_features:
            raise ValueError(
                f"{what} has {len(values):,} values, but X has {self.n_features:,} features: it "
                "wants one for each"
            )
        return np.array(np.broadcast_to(values, self.n_features))

    def groups(self, given: Any) -> list[np.ndarray]:
        """Return the features of each group; those that no list has are groups of their own."""
        d = self.n_features
        if are_lists(given):
            return self._listed(given)
        if len(given) != d:
            raise ValueError(
                f"groups has {len(given):,} labels, but X has {d:,} features: it wants one for each"
            )
        by_label: dict[Any, list[int]] = {}
        for j, label in enumerate(given):
            by_label.setdefault(label, []).append(j)
        return [np.array(features) for features in by_label.values()]

    def _listed(self, groups: Any) -> list[np.ndarray]:
        """Return the groups of lists of features."""
        d, found = self.n_features, []
        left = np.ones(d, dtype=bool)
        for group in groups:
            features = []
            for each in group:
                j = self.find(each, "groups") if isinstance(each, str) else int(each)
                if j >= d:
                    raise ValueError(
                        f"groups has the feature {each}, but X has {d:,} features, from 0 to "
                        f"{d - 1}"
                    )
                if not left[j]:  # by its name and by its number
                    raise ValueError(
                        f"groups has the feature {each!r} twice; groups must not overlap"
                    )
                left[j] = False
                features.append(j)
            found.append(np.array(sorted(features)))
        return found + [np.array([j]) for j in np.flatnonzero(left)]
