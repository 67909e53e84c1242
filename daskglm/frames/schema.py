"""What a user says of the columns of a table: `Schema`, checked before any work."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sklearn.base import BaseEstimator

from daskglm.core.arguments import check_choice, check_whole, shown
from daskglm.frames.choices import (
    ALIASED,
    BASES,
    ERROR,
    MOST_COLUMNS,
    OF_FACTORS,
    OF_NUMBERS,
    UNSEEN,
)


class Schema(BaseEstimator):
    """How the columns of a table become coefficients.

    Text, categories and booleans are factors, whose levels have a coefficient each; numbers are
    numbers. Levels are those of the data, sorted.

    Parameters
    ----------
    categories : sequence of str, optional
        Columns that are factors although they have numbers, such as months; or although nearly
        every row has a level of its own.
    numeric : sequence of str, optional
        Columns of text or categories that are numbers.
    base : "first", "most_frequent", or dict of column to level, optional
        Level of each factor that has no coefficient; its text is enough. Default: with a penalty
        all levels have one, without one the first has none.
    missing : "error", "level", "mean", "indicator", several of these, or dict of column to one
        What is done with missing values: a level of its own for factors; the mean of the column for
        numbers, with "indicator" beside a coefficient of the rows that miss it. Default: an error.
    unseen : {"error", "reference", "zero"}
        What a level that the fit has not seen is taken for later: an error, the base level (the
        first, if all have coefficients), or none, whose rows have no part of this factor.
    min_count : int, default 1
        Levels of fewer rows share one, "(rare)".
    splines : dict of column to int, optional
        Columns of numbers with few different values that have a cubic B-spline of so many
        coefficients, with knots at quantiles, at least 3.
    polynomials : dict of column to int, optional
        Columns of numbers with few different values that have powers up to this degree, of values
        less their mean, over their standard deviation.
    interactions : sequence of tuples of str, optional
        Factors whose combinations have coefficients, those of the data only.
    absorb : sequence of str, optional
        Factors whose levels have effects without a penalty that are neither reported nor inferred,
        as of firms and years (fixed effects): `coef_` has all other coefficients, as with dummy
        variables; there is no intercept then. Rows that say nothing are left out and counted: those
        of levels with one row, or with all targets at one end, whose effect would be infinite.
    aliased : {"drop", "error"}, default "drop"
        What is done without a penalty with columns that depend on others before them: they are left
        out, with a warning, as R does, or refused.
    exposure, offset, sample_weight, clusters : str, optional
        Columns with these roles wherever they are not given otherwise, so that a search or a
        pipeline carries them. Clusters are those of `inference`.

    Examples
    --------
    >>> import daskglm, pandas
    >>> frame = pandas.DataFrame({"area": ["a", "b", "b"], "y": [1.0, 2.0, 2.0]})
    >>> model = daskglm.PoissonRegressor(schema={"base": "first"}).fit(frame, "y")
    >>> model.feature_names_out_
    array(['area[b]'], dtype=object)
    """

    def __init__(
        self,
        *,
        categories: Any = None,
        numeric: Any = None,
        base: Any = None,
        missing: Any = ERROR,
        unseen: str = ERROR,
        min_count: int = 1,
        splines: Any = None,
        polynomials: Any = None,
        interactions: Any = None,
        absorb: Any = None,
        aliased: str = "drop",
        exposure: str | None = None,
        offset: str | None = None,
        sample_weight: str | None = None,
        clusters: str | None = None,
    ) -> None:
        self.categories = categories
        self.numeric = numeric
        self.base = base
        self.missing = missing
        self.unseen = unseen
        self.min_count = min_count
        self.splines = splines
        self.polynomials = polynomials
        self.interactions = interactions
        self.absorb = absorb
        self.aliased = aliased
        self.exposure = exposure
        self.offset = offset
        self.sample_weight = sample_weight
        self.clusters = clusters

    @property
    def roles(self) -> dict[str, str]:
        """Columns beside the features, by role."""
        names = ("exposure", "offset", "sample_weight", "clusters")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    @property
    def is_default(self) -> bool:
        """Whether nothing is said of the features, and nothing but what a fit takes beside them."""
        beside = dict.fromkeys(name for name in self.roles if name != "clusters")
        given = {**self.get_params(deep=False), **beside}
        return given == Schema().get_params(deep=False)

    def check(self) -> None:
        """Raise ValueError or TypeError for what no table can have."""
        for name in ("categories", "numeric", "absorb"):
            _check_names(getattr(self, name), name)
        for one, other in (("categories", "numeric"), ("absorb", "numeric")):
            if both := set(getattr(self, one) or ()) & set(getattr(self, other) or ()):
                raise ValueError(f"{min(both)!r} is in {one} and in {other}: give one of them")
        check_choice(self.unseen, "unseen", UNSEEN)
        check_choice(self.aliased, "aliased", ALIASED)
        check_whole(self.min_count, "min_count", 1)
        if self.base is not None and not isinstance(self.base, Mapping):
            check_choice(self.base, "base", BASES)
        self._check_missing()
        for name in ("splines", "polynomials"):
            _check_degrees(getattr(self, name), name, 3 if name == "splines" else 1)
        for one, other in (
            ("splines", "polynomials"),
            ("absorb", "splines"),
            ("absorb", "polynomials"),
        ):
            if both := set(getattr(self, one) or ()) & set(getattr(self, other) or ()):
                raise ValueError(f"{min(both)!r} is in {one} and in {other}: give one of them")
        for pair in _sequence(self.interactions, "interactions"):
            if isinstance(pair, str) or len(_names(pair, "interactions")) < 2:
                raise ValueError(
                    f"interactions={shown(self.interactions)} must be tuples of two or more names"
                )
            if both := set(pair) & set(self.absorb or ()):
                raise ValueError(
                    f"interactions={shown(self.interactions)}: {min(both)!r} is absorbed; make a "
                    "column of the combinations, and absorb that too"
                )
        for role, name in self.roles.items():
            if not isinstance(name, str):
                raise TypeError(f"{role}={shown(name)} of a schema must be the name of a column")

    def _check_missing(self) -> None:
        known = (ERROR, *OF_FACTORS, *OF_NUMBERS)
        given = self.missing
        if isinstance(given, Mapping):
            for column, how in given.items():
                check_choice(how, f"missing[{column!r}]", known)
            return
        several = [given] if isinstance(given, str) else _sequence(given, "missing")
        for how in several:
            check_choice(how, "missing", known)
        if set(OF_NUMBERS) <= set(several):
            raise ValueError(f"missing={shown(given)}: give one way for numbers")

    def how_missing(self, column: str, *, factor: bool) -> str:
        """Return what is done with the missing values of a column."""
        ways = OF_FACTORS if factor else OF_NUMBERS
        given = self.missing
        if isinstance(given, Mapping):
            how = given.get(column, ERROR)
            if how not in (ERROR, *ways):
                raise ValueError(
                    f"missing={{{column!r}: {how!r}}}: {column!r} is a column of "
                    f"{'levels' if factor else 'numbers'}, for which there is "
                    f"{' and '.join(map(repr, ways))}"
                )
            return str(how)
        several = [given] if isinstance(given, str) else list(given)
        return next((str(how) for how in several if how in ways), ERROR)

    @property
    def named(self) -> set[str]:
        """All columns that are named as features."""
        found = {*(self.categories or ()), *(self.numeric or ()), *(self.absorb or ())}
        for given in (self.base, self.missing, self.splines, self.polynomials):
            found |= set(given) if isinstance(given, Mapping) else set()
        return found.union(*(self.interactions or ()))


def schema_of(given: Any) -> Schema:
    """Return a schema that is given as such, as a dict of its parameters, or None; checked.

    Raises ValueError or TypeError for anything else.
    """
    if given is None:
        return Schema()
    if isinstance(given, Mapping):
        known = Schema().get_params(deep=False)
        if unknown := [name for name in given if name not in known]:
            raise ValueError(f"schema has no {unknown[0]!r}; it has {', '.join(known)}")
        given = Schema(**given)
    if not isinstance(given, Schema):
        raise TypeError(
            f"schema={shown(given)} must be a daskglm.Schema or a dict of its parameters"
        )
    given.check()
    return given


# ---- pieces
def _sequence(given: Any, name: str) -> Sequence[Any]:
    if given is None:
        return ()
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Collection):
        raise TypeError(f"{name}={shown(given)} must be a sequence")
    return list(given)


def _names(given: Any, name: str) -> list[str]:
    found = list(_sequence(given, name))
    if wrong := [each for each in found if not isinstance(each, str)]:
        raise TypeError(f"{name}={shown(given)} must be names of columns; {wrong[0]!r} is none")
    return found


def _check_names(given: Any, name: str) -> None:
    if isinstance(given, str):
        raise TypeError(f"{name}={given!r} must be a sequence of names: give [{given!r}]")
    _names(given, name)


def _check_degrees(given: Any, name: str, least: int) -> None:
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise TypeError(f"{name}={shown(given)} must be a dict of names of columns to numbers")
    for column, degree in given.items():
        check_whole(degree, f"{name}[{column!r}]", least)
        if degree > MOST_COLUMNS:
            raise ValueError(f"{name}[{column!r}]={degree} is above {MOST_COLUMNS}")
