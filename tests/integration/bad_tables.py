"""Bad tables as data: what is wrong with a table or its schema, and what the error must say.

A row is `Bad(id, spoil, schema, says, faces)`: `spoil` makes a bad table of a good one, `schema` is
given to the fit (None: the usual one), `says` is a regular expression that the message must hold. `tests/integration/
test_bad_tables.py` tries each at every one of its faces.
"""

import datetime
import decimal
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

FIT = ("fit", "estimator", "dask", "cv", "path")
MEMORY = ("fit", "estimator", "cv", "path")  # that dask has no such frame for
LATER = ("predict", "predict dask", "score", "inference", "residuals", "scorer")
FRAMES = LATER[:-1]
DAY = pd.Timestamp("2026-01-01")


class Bad(NamedTuple):
    """One bad table."""

    id: str
    spoil: Callable[[Any], Any]
    says: str
    faces: tuple[str, ...] = FIT
    schema: Any = None


def same(table):
    return table


def having(**columns):
    return lambda table: table.assign(**columns)


def each(make):
    return lambda table: table.assign(d=[make(i) for i in range(len(table))])


def at(row, name, value, dtype=object):
    """A table with one bad value."""

    def spoil(table):
        values = table[name].astype(dtype).copy()
        values.iloc[row] = value
        return table.assign(**{name: values})

    return spoil


COLUMNS = [
    Bad("dates", having(d=DAY), "column 'd' has dtype datetime64.*days since a date"),
    Bad("dates with zones", having(d=DAY.tz_localize("UTC")), "column 'd' has dtype datetime64"),
    Bad("durations", having(d=pd.Timedelta("1D")), "column 'd' has dtype timedelta64"),
    Bad("dates as objects", having(d=DAY.date()), "column 'd' has dates .date.*days since"),
    Bad("times as objects", having(d=datetime.time(3)), "column 'd' has dates .time"),
    Bad("periods", having(d=pd.Period("2026-01")), "column 'd' has dtype period"),
    Bad("intervals", having(d=pd.Interval(0, 1)), "column 'd' has dtype interval"),
    Bad(
        "categories of dates",
        lambda t: t.assign(d=pd.Categorical([DAY] * len(t))),
        "column 'd' has dtype datetime64",
    ),
    Bad("complex", having(d=1j), "Complex data not supported: column 'd'", MEMORY),
    Bad("complex objects", each(lambda i: 1j if i else "x"), r"column 'd' is 1j, but row 0 'x'"),
    Bad("lists", each(lambda i: [1]), r"row 0, column 'd' is \[1\], a list"),
    Bad("dicts", each(lambda i: {"a": 1}), "row 0, column 'd' is .*a dict"),
    Bad("text, then numbers", each(lambda i: i or "x"), "row 1, column 'd' is 1, but row 0 'x'"),
    Bad("numbers, then text", each(lambda i: 0.5 if i < 9 else "x"), "row 9, .*'x', but row 0 0.5"),
    Bad("text, then bytes", each(lambda i: b"y" if i else "x"), "row 1, column 'd' is b'y'"),
    Bad(
        "bytes", each(lambda i: b"ab"[i % 2 :]), "'d' has values .* levels, such as b'ab', a bytes"
    ),
    Bad("tuples", each(lambda i: (i % 2, 1)), r"row 0, column 'd' is \(0, 1\), a tuple"),
    Bad("booleans and numbers", each(lambda i: i % 3 or True), "row 1, .* is 1, but row 0 True"),
    Bad(
        "categories of tuples",
        lambda t: t.assign(d=pd.Categorical([(i % 2, 1) for i in range(len(t))])),
        r"column 'd' has the level \(0, 1\), a tuple: levels are text",
        MEMORY,
    ),
    Bad(
        "categories of bytes that are no text",
        lambda t: t.assign(d=pd.Categorical([bytes([200 + i % 2]) for i in range(len(t))])),
        r"column 'd' has the level b'\\xc8', a bytes",
        MEMORY,
    ),
    Bad(
        "categories of text and numbers",
        lambda t: t.assign(d=pd.Categorical([("a", 1)[i % 2] for i in range(len(t))])),
        r"'d' has levels of several types \(int, str\)",
        MEMORY,
    ),
    Bad(
        "categories of booleans and numbers",
        lambda t: t.assign(d=pd.Categorical(np.array([True, 2], object)[np.arange(len(t)) % 2])),
        r"'d' has levels of several types \(bool, int\)",
        MEMORY,
    ),
    Bad(
        "levels that are infinite",
        each(lambda i: i % 3 / (i % 2) if i % 2 else np.inf),
        "column 'd' has the level inf, a float",
        FIT,
        {"categories": ["month", "d"]},
    ),
    Bad(
        "numbers beyond floats",
        each(lambda i: 10**400 + i),
        "row 0, column 'd' is 1000.*0000",
        MEMORY,
    ),
    Bad(
        "levels beyond 64 bits",
        each(lambda i: 2**70 + i % 3),
        "column 'd' has values",
        MEMORY,
        {"categories": ["d"]},
    ),
    Bad(
        "binary of Arrow",
        lambda t: t.assign(d=pd.Series([b"a"] * len(t), dtype=pd.ArrowDtype(pa.binary()))),
        "column 'd' has dtype binary.*make columns of them",
    ),
    Bad(
        "a column named like a coefficient",
        lambda t: t.assign(**{"area[b]": 1.0 * t.age}),
        r"two coefficients would have the name 'area\[b\]'",
    ),
    Bad(
        "a level named like those that miss it",
        each(lambda i: ("(missing)", None, "x")[i % 3]),
        r"two coefficients would have the name 'd\[\(missing\)\]'",
        FIT,
        {"missing": "level"},
    ),
    Bad(
        "a level named like the rare ones",
        each(lambda i: ("(rare)", "x")[i % 2] if i else "seldom"),
        r"two coefficients would have the name 'd\[\(rare\)\]'",
        FIT,
        {"min_count": 2},
    ),
    Bad("no rows", lambda t: t.iloc[:0], "X has no rows", ("fit", "estimator", "path")),
    Bad(
        "names of several levels",
        lambda t: t[["area", "age"]].set_axis(
            pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")]), axis=1
        ),
        r"no column 'claims'|no text: \('a', 'x'\).*list\(map\(str",
        MEMORY,
    ),
    Bad("identifiers", each(lambda i: f"id {i}"), "'d' has 1,200 levels in 1,200 rows.*Drop it"),
    Bad(
        "categories that identify",
        lambda t: t.assign(d=pd.Categorical(range(len(t)))),
        "'d' has 1,200 levels in 1,200 rows, such as 0",
    ),
    Bad("fractions as text", each(lambda i: f"{i % 9}.5"), "'d' is text that reads as numbers"),
    Bad("exponents as text", each(lambda i: f"{i % 9 + 1}e-3"), "reads as numbers, such as"),
    Bad("one fraction as text", each(lambda i: "1.5" if i else "2"), "reads as numbers.*'1.5'"),
    Bad("columns twice", lambda t: pd.concat([t, t[["area"]]], axis=1), "more than one", MEMORY),
    Bad("numbers as names", lambda t: t.rename(columns={"age": 3}), r"feature name", MEMORY),
    Bad(
        "nothing but y",
        lambda t: t[["claims", "years"]],
        "no columns but.*nothing to fit",
        ("fit", "estimator"),
        {"base": "first"},
    ),
]
VALUES = [
    Bad("text missing", at(7, "area", None), "NaN: .*row 7, column 'area'.*'missing': 'level'"),
    Bad("text NaN", at(7, "area", np.nan), "NaN: .*row 7, column 'area'"),
    Bad("text NA", at(7, "area", pd.NA), "NaN: .*row 7, column 'area'"),
    Bad("category missing", at(7, "brand", None, "category"), "NaN: .*row 7, column 'brand'"),
    Bad("bool missing", at(7, "old", None, "boolean"), "NaN: .*row 7, column 'old'"),
    Bad("level of numbers missing", at(7, "month", np.nan, float), "NaN: .*row 7, column 'month'"),
    Bad(
        "number NaN",
        at(7, "power", np.nan, float),
        "NaN: .*row 7, column 'power'.*'missing': 'mean'",
    ),
    Bad("number None", at(7, "power", None), "NaN: .*row 7, column 'power'"),
    Bad("nullable number NA", at(7, "age", pd.NA, "Int64"), "NaN: .*row 7, column 'age'"),
    Bad("number inf", at(7, "power", np.inf, float), "infinity .*row 7, column 'power'"),
    Bad("number -inf", at(7, "power", -np.inf, float), "infinity .*row 7, column 'power'"),
    Bad("number inf of objects", at(7, "power", np.inf), "infinity .*row 7, column 'power'"),
    Bad("decimal NaN", at(7, "power", decimal.Decimal("NaN")), "column .power."),
    Bad(
        "all text missing", having(d=pd.Series([None] * 1200, dtype="str")), "NaN|no value", MEMORY
    ),
    Bad("all numbers missing", having(power=np.nan), "column 'power' has no value at all"),
    Bad("all objects missing", having(d=None), "NaN: .*row 0, column 'd'|no value"),
    Bad(
        "spline missing",
        at(7, "age", np.nan, float),
        "NaN: .*row 7, column 'age'",
        FIT,
        {"splines": {"age": 4}},
    ),
    Bad("huge", having(power=1e200), "squares overflow|1e154"),
    Bad(
        "exposure of zero",
        at(7, "years", 0.0, float),
        "row 7: exposure is 0, which is not above",
        ("fit", "estimator", "dask", "path"),
    ),
    Bad(
        "exposure missing",
        at(7, "years", np.nan, float),
        "exposure contains NaN: .*row 7",
        ("fit", "estimator", "dask", "path"),
    ),
    Bad(
        "target missing",
        at(7, "claims", np.nan, float),
        "y contains NaN|row 7",
        ("fit", "estimator", "dask", "path"),
    ),
    Bad(
        "target negative",
        at(7, "claims", -1.0, float),
        "row 7: y is -1",
        ("fit", "estimator", "dask", "path"),
    ),
    Bad(
        "target as text",
        having(claims="one"),
        "y has values that are not numbers",
        ("fit", "estimator", "dask", "path"),
    ),
]
SCHEMAS = [
    Bad(
        "no such column",
        same,
        "schema names 'colour', which is no feature",
        FIT,
        {"categories": ["colour"]},
    ),
    Bad("base of no column", same, "schema names 'colour'", FIT, {"base": {"colour": "red"}}),
    Bad(
        "base of no level",
        same,
        "base=.*'area': 'q'.*'area' has the levels 'a', 'b'",
        FIT,
        {"base": {"area": "q"}},
    ),
    Bad(
        "interaction of numbers",
        same,
        "'power' is not a factor; name it in categories",
        FIT,
        {"interactions": [("area", "power")]},
    ),
    Bad(
        "interaction of no column",
        same,
        "schema names 'colour'",
        FIT,
        {"interactions": [("area", "colour")]},
    ),
    Bad("text as numbers", same, "row 0, column 'area' is", FIT, {"numeric": ["area"]}),
    Bad(
        "spline of text",
        same,
        "column 'area' has no numbers, which a spline",
        FIT,
        {"splines": {"area": 4}},
    ),
    Bad(
        "spline of few values",
        same,
        "'month' has 4 different values, too few for 5",
        FIT,
        {"splines": {"month": 5}},
    ),
    Bad(
        "mean of levels",
        same,
        "'area' is a column of levels, for which there is 'level'",
        FIT,
        {"missing": {"area": "mean"}},
    ),
    Bad(
        "levels of numbers",
        same,
        "'power' is a column of numbers, for which there is 'mean'",
        FIT,
        {"missing": {"power": "level"}},
    ),
    Bad("role of no column", same, "has no column 'price'", FIT, {"sample_weight": "price"}),
    Bad("a misspelling", same, "schema has no 'category'", FIT, {"category": ["month"]}),
    Bad("no schema", same, "schema='month' must be a daskglm.Schema", FIT, "month"),
]
LATER_ROWS = [
    Bad("a new level", at(7, "area", "q"), "column 'area' has the level 'q'.*'unseen': ", LATER),
    Bad("a new category", at(7, "brand", "q"), "column 'brand' has the level 'q'", LATER),
    Bad("a new number of levels", at(7, "month", 12, int), "'month' has the level 12", LATER),
    Bad("a level that is missing", at(7, "area", None), "column 'area' is missing", LATER),
    Bad("a number that is missing", at(7, "power", np.nan, float), "NaN|missing", LATER),
    Bad("text for a number", at(7, "power", "x"), "column 'power'", LATER),
    Bad("infinity", at(7, "power", np.inf, float), "infin|not finite", LATER),
    Bad("no such column", lambda t: t.drop(columns="area"), "lacks .*column.* 'area'", LATER),
    Bad("dates for levels", having(area=DAY), "column 'area' has dtype datetime64", FRAMES),
    Bad("dates for numbers", having(power=DAY), "column 'power' has dtype datetime64", FRAMES),
    Bad("lists", lambda t: t.assign(area=[[1]] * len(t)), "column 'area'", FRAMES),
    Bad(
        "an array",
        lambda t: t.to_numpy(),
        "ndarray, but the model was fitted to a table",
        ("predict",),
    ),
]
