"""A design says in words what its columns are; nothing of it is long."""

import numpy as np
import pandas as pd

import daskglm

N = 200


def test_a_line_for_each_column():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "area": rng.choice(list("abcdefg"), N),
            "new": rng.random(N) < 0.5,
            "age": rng.integers(18, 30, N),
            "size": rng.integers(1, 9, N),
            "power": rng.normal(size=N),
            "years": rng.uniform(0.5, 1.0, N),
            "y": rng.poisson(1.0, N),
        }
    )
    frame.loc[0, "area"] = "x"
    frame.loc[:2, "power"] = [3.0, np.nan, np.nan]
    schema = {
        "missing": ["level", "indicator"],
        "min_count": 2,
        "splines": {"age": 4},
        "polynomials": {"size": 2},
        "interactions": [("area", "new")],
        "base": {"area": "b"},
        "unseen": "zero",
    }
    model = daskglm.PoissonRegressor(schema=schema).fit(frame, "y", exposure="years")
    lines = str(model.schema_).splitlines()
    assert repr(model.schema_) == str(model.schema_)
    assert lines[0] == f"5 columns, {len(model.coef_)} coefficients"
    assert lines[1] == (
        "  area      factor of 8 levels; base 'b'; 'a', 'b', 'c', 'd', 'e', ... 2 more; "
        "1 rare ones as one ('x')"
    )
    assert lines[2:5] == [
        "  new       factor of 2 levels; base False; False, True",
        "  age       cubic spline, 4 coefficients (12 values seen)",
        "  size      polynomial, 2 coefficients (8 values seen)",
    ]
    mean = f"{frame.power.mean():.6g}"
    assert lines[5] == f"  power     number; missing: the mean, {mean}, with a coefficient for them"
    assert lines[6].startswith("  area:new  ")
    assert lines[7:] == [
        "levels that the fit has not seen: taken for none: no coefficient of the column",
        "beside the features",
        "  exposure  years",
    ]


def test_many_levels_are_counted():
    frame = pd.DataFrame({"zip": [f"z{i % 500:03d}" for i in range(3000)], "y": 1.0})
    frame.loc[::3, "y"] = 2.0
    model = daskglm.Ridge().fit(frame, "y")
    assert "factor of 500 levels; base none; 'z000', 'z001'" in str(model.schema_)
    assert "... 495 more" in str(model.schema_)
    assert len(str(model.schema_)) < 300
