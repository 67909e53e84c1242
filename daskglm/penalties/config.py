"""What a user asks of the penalty and of bounds, checked before any work."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from daskglm.core.arguments import check_flag, is_number, shown
from daskglm.penalties.checks import (
    check_bounds,
    check_factors,
    check_factors_of_groups,
    check_groups,
    check_left_out,
    check_order,
    semi_definite,
)
from daskglm.penalties.resolved import FeatureNames, ResolvedPenalty


@dataclass(frozen=True, eq=False)
class PenaltyConfig:
    """The penalty rho sum_j v_j |w_j| + (1 - rho)/2 sum_j v_j w_j^2, and bounds, as users give it.

    The fit adds C sum_i s_i loss_i. Intercepts have neither penalty nor bounds.

    Parameters
    ----------
    l1_ratio : float, default 0.0
        rho, from 0 to 1.
    penalty_factor : (d,) array, or dict of feature name to number, optional
        v, not below 0; 0: the feature is not penalised, inf: it is left out, with a coefficient of
        0. Features that a dict lacks have 1.
    P2 : (d, d) array or sparse matrix, optional
        The L2 part is (1 - rho)/2 w.P2 w instead, and v is that of the L1 part alone; symmetric,
        without negative eigenvalues.
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
        """Whether coefficients have bounds, or features are left out, which are held at zero."""
        return self.is_bounded or self.leaves_out

    @property
    def is_bounded(self) -> bool:
        """Whether bounds are given."""
        return self.lower_bounds is not None or self.upper_bounds is not None

    @cached_property
    def leaves_out(self) -> bool:
        """Whether features are left out, by infinite factors."""
        return bool(np.isinf(self._factors).any())

    @property
    def _factors(self) -> np.ndarray:
        """The numbers among the factors, without names; `check` refuses others."""
        given = self.penalty_factor
        given = list(given.values()) if isinstance(given, Mapping) else given
        try:
            return np.atleast_1d(np.asarray(1.0 if given is None else given, dtype=np.float64))
        except (TypeError, ValueError):
            return np.ones(1)

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
            found.update(repr((each.name, _whole(getattr(self, each.name)))).encode())
        return found.hexdigest()[:16]

    def check(self) -> None:
        """Raise ValueError for values that no data can make right."""
        if not is_number(self.l1_ratio) or not 0 <= self.l1_ratio <= 1:
            raise ValueError(
                f"l1_ratio={shown(self.l1_ratio)} must be a number from 0 (L2 penalty) to 1 (L1)"
            )
        check_flag(self.standardize, "standardize")
        factors = self._factors
        if self.P2 is not None and self.l1_ratio == 0 and not np.isin(factors, (1.0, np.inf)).all():
            raise ValueError(
                f"penalty_factor={shown(self.penalty_factor)} and P2 are both given: put the "
                "factors into P2, whose entry j, j is the factor of feature j; with an l1_ratio "
                "above 0 they are those of the L1 part"
            )
        if self.groups is not None and self.is_bounded:
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
        if self.P2 is not None and self.l1_ratio == 1:
            raise ValueError(
                f"P2={shown(self.P2)} has no effect with l1_ratio=1, which has no L2 part; give a "
                "smaller l1_ratio"
            )
        check_factors(self.penalty_factor)
        self._matrix  # noqa: B018  # raises ValueError for a matrix that is no penalty
        check_bounds(self.lower_bounds, "lower_bounds")
        check_bounds(self.upper_bounds, "upper_bounds")
        check_order(self.lower_bounds, self.upper_bounds)
        if self.groups is not None:
            check_groups(self.groups)

    @cached_property
    def _matrix(self) -> np.ndarray | None:
        """P2 as an array; raises ValueError for what is no symmetric, semi-definite matrix."""
        return None if self.P2 is None else semi_definite(self.P2)

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
        features = FeatureNames(n_features, names)
        P2 = self._matrix
        if P2 is not None and len(P2) != n_features:
            raise ValueError(
                f"P2 has the shape {P2.shape}, but X has {n_features:,} features: it wants a row "
                "and a column for each"
            )
        factors = features.values(self.penalty_factor, "penalty_factor", 1.0)
        if factors is not None and P2 is None and not factors.any():
            raise ValueError(
                "penalty_factor is 0 for all features, which leaves no penalty; ask for that by "
                "C=inf or alpha=0"
            )
        lower = features.values(self.lower_bounds, "lower_bounds", -math.inf)
        upper = features.values(self.upper_bounds, "upper_bounds", math.inf)
        check_order(lower, upper)
        if factors is not None and self.leaves_out:
            check_left_out(np.isinf(factors), lower, upper)
        groups = None if self.groups is None else features.groups(self.groups)
        if groups is not None and factors is not None:
            check_factors_of_groups(factors, groups)
        return ResolvedPenalty(
            float(self.l1_ratio), factors, P2, lower, upper, groups, bool(self.standardize)
        )


PLAIN = PenaltyConfig()
"""The penalty 1/2 |w|^2, without bounds."""


def _whole(value: Any) -> Any:
    """Return what `repr` writes whole, and alike in every process."""
    if sp.issparse(value):
        return value.toarray().tobytes()
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    if isinstance(value, np.ndarray):
        return value.tolist() if value.dtype == object else (value.shape, value.tobytes())
    if isinstance(value, list | tuple):
        return [_whole(each) for each in value]
    if isinstance(value, Mapping):
        return [(key, _whole(each)) for key, each in value.items()]
    return value
