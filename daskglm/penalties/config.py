"""What a user asks of the penalty and of bounds, checked before any work, as arrays of features."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from daskglm.core.arguments import check_flag, is_number, is_sequence, is_whole, shown

# Rounding errors of symmetry and of eigenvalues that are allowed in P2, in units of machine
# epsilon times the largest entry, for each feature. LAPACK's bound has a factor of about 1; chosen.
ROUNDING = 10.0 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class ResolvedPenalty:
    """A penalty on the coefficients of d features, as arrays of float64.

    Parameters
    ----------
    l1_ratio : float
    factors : (d,) array, or None
        Factors of both parts; None: ones.
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


@dataclass(frozen=True, eq=False)
class PenaltyConfig:
    """The penalty rho sum_j v_j |w_j| + (1 - rho)/2 sum_j v_j w_j^2, and bounds, as users give it.

    The fit adds C sum_i s_i loss_i. Intercepts have neither penalty nor bounds.

    Parameters
    ----------
    l1_ratio : float, default 0.0
        rho, from 0 to 1.
    penalty_factor : (d,) array, or dict of feature name to number, optional
        v, not below 0; 0: the feature is not penalised. Features that a dict lacks have 1.
    P2 : (d, d) array or sparse matrix, optional
        The L2 part is (1 - rho)/2 w.P2 w instead; symmetric, without negative eigenvalues.
    lower_bounds, upper_bounds : float, (d,) array, or dict of feature name to number, optional
        Bounds of coefficients, which may be infinite. Features that a dict lacks have none.
    groups : (d,) array of labels, or list of lists of feature numbers or names, optional
        The L1 part is rho sum_G sqrt(size of G) v_G |w_G|_2 instead. Features that no list has are
        groups of their own.
    standardize : bool, default False
        Whether the penalty is that of coefficients of columns with standard deviation 1.
    """

    l1_ratio: float = 0.0
    penalty_factor: Any = None
    P2: Any = None
    lower_bounds: Any = None
    upper_bounds: Any = None
    groups: Any = None
    standardize: bool = False

    @property
    def has_bounds(self) -> bool:
        """Whether coefficients have bounds."""
        return self.lower_bounds is not None or self.upper_bounds is not None

    @property
    def is_smooth(self) -> bool:
        """Whether the penalty is quadratic, without bounds."""
        return self.l1_ratio == 0 and not self.has_bounds

    @property
    def is_plain(self) -> bool:
        """Whether the penalty is 1/2 |w|^2, without bounds: the default."""
        return self.is_smooth and not self.of_features

    @property
    def of_features(self) -> tuple[str, ...]:
        """Names of the parameters that make the penalty, not bounds, differ among features."""
        names = ("penalty_factor", "P2", "groups")
        given = tuple(name for name in names if getattr(self, name) is not None)
        return (*given, "standardize") if self.standardize else given

    @property
    def digest(self) -> str:
        """A checksum of all values, by which checkpoints tell penalties apart."""
        found = hashlib.sha256()
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, np.ndarray):
                value = (value.shape, value.tobytes())
            elif sp.issparse(value):
                value = value.toarray().tobytes()
            found.update(repr((each.name, value)).encode())
        return found.hexdigest()[:16]

    def check(self) -> None:
        """Raise ValueError for values that no data can make right."""
        if not is_number(self.l1_ratio) or not 0 <= self.l1_ratio <= 1:
            raise ValueError(
                f"l1_ratio={shown(self.l1_ratio)} must be a number from 0 (L2 penalty) to 1 (L1)"
            )
        check_flag(self.standardize, "standardize")
        if self.P2 is not None and self.penalty_factor is not None:
            raise ValueError(
                f"penalty_factor={shown(self.penalty_factor)} and P2 are both given: put the "
                "factors into P2, whose entry j, j is the factor of feature j"
            )
        if self.groups is not None and self.has_bounds:
            raise ValueError(
                f"groups={shown(self.groups)} with bounds of coefficients is not implemented; give "
                "groups, or lower_bounds, upper_bounds and positive"
            )
        if self.groups is not None and self.standardize:
            raise ValueError(
                f"groups={shown(self.groups)} with standardize=True is not implemented, since "
                "scales of columns would change the norms of groups; divide the columns of X by "
                "their standard deviations"
            )
        if self.groups is not None and self.l1_ratio == 0:
            raise ValueError(
                f"groups={shown(self.groups)} has no effect with l1_ratio=0; give a larger "
                "l1_ratio (1: the group lasso)"
            )
        _check_factors(self.penalty_factor)
        self._matrix  # noqa: B018  # raises ValueError for a matrix that is no penalty
        for name, given in (
            ("lower_bounds", self.lower_bounds),
            ("upper_bounds", self.upper_bounds),
        ):
            _check_bounds(given, name)
        _check_order(self.lower_bounds, self.upper_bounds)
        if self.groups is not None:
            _check_groups(self.groups)

    @cached_property
    def _matrix(self) -> np.ndarray | None:
        """P2 as an array; raises ValueError for what is no symmetric, semi-definite matrix."""
        if self.P2 is None:
            return None
        P2 = _numbers(self.P2.toarray() if sp.issparse(self.P2) else self.P2, "P2", ndim=2)
        if P2.shape[0] != P2.shape[1] or not P2.size:
            raise ValueError(
                f"P2 has the shape {P2.shape}; give a symmetric matrix with a row and a column for "
                "each feature"
            )
        if not np.isfinite(P2).all():
            raise ValueError(f"P2 has {P2[~np.isfinite(P2)][0]} among its entries; give numbers")
        rounding = ROUNDING * len(P2) * float(np.abs(P2).max())
        uneven = np.abs(P2 - P2.T)
        if uneven.max() > rounding:
            i, j = np.unravel_index(int(uneven.argmax()), P2.shape)
            raise ValueError(
                f"P2 is not symmetric: its entry {i}, {j} is {P2[i, j]:g}, but {j}, {i} is "
                f"{P2[j, i]:g}; give (P2 + P2.T) / 2, which has the same value w.P2 w"
            )
        least = float(np.linalg.eigvalsh(P2)[0])
        if least < -rounding:
            raise ValueError(
                f"P2 has the negative eigenvalue {least:g}, so that the penalty has no minimum; "
                "give a positive semi-definite matrix"
            )
        return P2

    def for_features(
        self, n_features: int, names: Sequence[str] | np.ndarray | None
    ) -> ResolvedPenalty:
        """Return the penalty of these features, as arrays.

        Parameters
        ----------
        n_features : int
        names : sequence of str, or None
            Those of the features; None: they have none.

        Raises
        ------
        ValueError
            For wrong lengths, for names that the features do not have, and for factors that differ
            within a group or are all zero.
        """
        self.check()
        place = _Names(n_features, names)
        P2 = self._matrix
        if P2 is not None and len(P2) != n_features:
            raise ValueError(
                f"P2 has the shape {P2.shape}, but X has {n_features:,} features: it wants a row "
                "and a column for each"
            )
        factors = place.values(self.penalty_factor, "penalty_factor", 1.0)
        if factors is not None and not factors.any():
            raise ValueError(
                "penalty_factor is 0 for all features, which leaves no penalty; ask for that by "
                "C=inf or alpha=0"
            )
        lower = place.values(self.lower_bounds, "lower_bounds", -math.inf)
        upper = place.values(self.upper_bounds, "upper_bounds", math.inf)
        _check_order(lower, upper)
        groups = None if self.groups is None else _resolved_groups(self.groups, place)
        if groups is not None and factors is not None:
            _check_factors_of_groups(factors, groups)
        return ResolvedPenalty(
            float(self.l1_ratio), factors, P2, lower, upper, groups, bool(self.standardize)
        )


PLAIN = PenaltyConfig()
"""The penalty 1/2 |w|^2, without bounds."""


class _Names:
    """Where features are, by their names."""

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
        values = _numbers(given, what, ndim=np.ndim(given))
        if values.ndim and len(values) != self.n_features:
            raise ValueError(
                f"{what} has {len(values):,} values, but X has {self.n_features:,} features: it "
                "wants one for each"
            )
        return np.array(np.broadcast_to(values, self.n_features))


# ---- checks of one parameter
def _numbers(given: Any, what: str, *, ndim: int) -> np.ndarray:
    """Return numbers as an array of float64 with so many dimensions; raise ValueError else."""
    if ndim == 1 and hasattr(given, "index") and hasattr(given, "to_dict"):
        raise ValueError(
            f"{what} is a {type(given).__name__}, whose values could be meant by name or in order; "
            "give its to_dict() or its to_numpy()"
        )
    try:
        values = np.asarray(given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what}={shown(given)} is no array of numbers: {error}") from error
    if values.dtype.kind not in "iuf" or values.ndim != ndim:
        raise ValueError(
            f"{what} has the shape {values.shape} and the dtype {values.dtype}; give "
            f"{'one number for each feature' if ndim < 2 else 'a matrix of numbers'}"
        )
    return values.astype(np.float64)


def _check_values(given: Any, what: str, kind: str, accept: Callable[[Any], Any]) -> None:
    """Raise ValueError unless all numbers of an array or a mapping are of the kind.

    `accept` says which of an array are.
    """
    if isinstance(given, Mapping):
        for name, value in given.items():
            if not isinstance(name, str):
                raise ValueError(
                    f"{what}={shown(given)} has the key {shown(name)}; keys are names of features"
                )
            if not is_number(value) or not accept(np.float64(value)):
                raise ValueError(f"{what}: {shown(name)} has {shown(value)}; give {kind}")
        return
    values = _numbers(given, what, ndim=1)
    wrong = np.flatnonzero(~accept(values))
    if len(wrong):
        raise ValueError(f"{what} has {values[wrong[0]]} for feature {wrong[0]}; give {kind}")


def _check_factors(given: Any) -> None:
    if given is None:
        return
    if not isinstance(given, Mapping) and not is_sequence(given):
        raise ValueError(
            f"penalty_factor={shown(given)} must be an array with a number for each feature, or a "
            "dict of feature name: number; for all features alike there are C and alpha"
        )
    _check_values(
        given,
        "penalty_factor",
        "a finite number not below 0",
        lambda v: (v >= 0.0) & (v < math.inf),
    )


def _check_bounds(given: Any, what: str) -> None:
    if given is None:
        return
    never = math.inf if what == "lower_bounds" else -math.inf
    kind = f"a number, or {-never} for none"
    if is_number(given):
        if math.isnan(given) or given == never:
            raise ValueError(f"{what}={given!r} must be {kind}")
        return
    if not isinstance(given, Mapping) and not is_sequence(given):
        raise ValueError(
            f"{what}={shown(given)} must be a number, an array with one for each feature, or a "
            "dict of feature name: number"
        )
    _check_values(given, what, kind, lambda v: ~np.isnan(v) & (v != never))


def _check_order(lower: Any, upper: Any) -> None:
    """Raise ValueError for a lower bound above the upper one, as far as they can be compared."""
    if lower is None or upper is None:
        return
    if isinstance(lower, Mapping) or isinstance(upper, Mapping):
        named = [each for each in (lower, upper) if isinstance(each, Mapping)]
        keys: Any = list(dict.fromkeys(key for each in named for key in each))
        low, high = _by_name(lower, keys, -math.inf), _by_name(upper, keys, math.inf)
    else:
        low, high = np.atleast_1d(np.asarray(lower)), np.atleast_1d(np.asarray(upper))
        if len(low) != len(high) and min(len(low), len(high)) != 1:
            raise ValueError(
                f"lower_bounds has {len(low):,} values and upper_bounds {len(high):,}: give one "
                "for each feature"
            )
        low, high = np.broadcast_arrays(low, high)
        keys = range(len(low))
    crossed = np.flatnonzero(low > high)
    if len(crossed):
        j = int(crossed[0])
        raise ValueError(
            f"lower_bounds has {low[j]:g} for feature {keys[j]!r} and upper_bounds {high[j]:g}: no "
            "coefficient is between them"
        )


def _by_name(given: Any, names: Sequence[str], default: float) -> np.ndarray:
    """Return the bounds of these features; those of an array, without names, are not known."""
    if isinstance(given, Mapping):
        return np.array([float(given.get(name, default)) for name in names])
    return np.full(len(names), float(given) if is_number(given) else default)


def _lists(groups: Any) -> bool:
    """Return whether groups are lists of features; else they are a label for each feature."""
    return bool(len(groups)) and all(is_sequence(each) for each in groups)


def _check_groups(groups: Any) -> None:
    if not is_sequence(groups) or not len(groups):
        raise ValueError(
            f"groups={shown(groups)} must be an array with a label for each feature, or a list of "
            "lists of feature numbers or names"
        )
    if not _lists(groups):
        if any(isinstance(each, Mapping) or is_sequence(each) or each is None for each in groups):
            raise ValueError(
                f"groups={shown(groups)} has labels beside lists of features; give labels for all "
                "features, or lists only"
            )
        return
    seen = set()
    for group in groups:
        if not len(group):
            raise ValueError(f"groups={shown(groups)} has an empty group; leave it out")
        for each in group:
            if not isinstance(each, str) and not (is_whole(each) and each >= 0):
                raise ValueError(
                    f"groups has {shown(each)} among the features of a group; give their numbers, "
                    "from 0, or names"
                )
            if each in seen:
                raise ValueError(
                    f"groups has the feature {shown(each)} twice; groups must not overlap"
                )
            seen.add(each)


def _resolved_groups(groups: Any, place: _Names) -> list[np.ndarray]:
    """Return the features of each group; those that no list has are groups of their own."""
    d = place.n_features
    if not _lists(groups):
        if len(groups) != d:
            raise ValueError(
                f"groups has {len(groups):,} labels, but X has {d:,} features: it wants one for "
                "each"
            )
        by_label: dict[Any, list[int]] = {}
        for j, label in enumerate(groups):
            by_label.setdefault(label, []).append(j)
        return [np.array(features) for features in by_label.values()]
    found = []
    left = np.ones(d, dtype=bool)
    for group in groups:
        features = [
            place.find(each, "groups") if isinstance(each, str) else int(each) for each in group
        ]
        for each, j in zip(group, features, strict=True):
            if j >= d:
                raise ValueError(
                    f"groups has the feature {each}, but X has {d:,} features, from 0 to {d - 1}"
                )
            if not left[j]:  # by its name and by its number
                raise ValueError(f"groups has the feature {each!r} twice; groups must not overlap")
            left[j] = False
        found.append(np.array(sorted(features)))
    return found + [np.array([j]) for j in np.flatnonzero(left)]


def _check_factors_of_groups(factors: np.ndarray, groups: list[np.ndarray]) -> None:
    for group in groups:
        if (factors[group] != factors[group[0]]).any():
            raise ValueError(
                f"penalty_factor has {factors[group].min():g} and {factors[group].max():g} within "
                f"the group of the features {shown(group.tolist())}; a group has one factor"
            )
