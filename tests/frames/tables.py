"""A small table of counts with columns of all kinds, and its one-hot twin by pandas."""

import numpy as np
import pandas as pd

N = 1200
LEVELS = {"area": list("abcdef"), "brand": ["x", "y", "z"], "month": [1, 2, 5, 11]}


def counts(seed=0, n=N):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "area": rng.choice(LEVELS["area"], n),
            "power": rng.normal(size=n),
            "brand": pd.Categorical(rng.choice(LEVELS["brand"], n)),
            "old": rng.random(n) < 0.3,
            "month": rng.choice(LEVELS["month"], n),
            "age": rng.integers(18, 60, n),
            "years": 0.2 + rng.random(n),
        }
    )
    frame.loc[0, "old"], frame.loc[1, "old"] = True, False
    margin = 0.4 * (frame.area == "b") + 0.3 * frame.old + 0.01 * frame.age + 0.2 * frame.power
    frame["claims"] = rng.poisson(np.exp(margin - 0.5) * frame.years)
    return frame


def one_hot(frame, columns, base=False):
    """Columns of ones for each level but the first if `base`, then numbers, as a design has them."""
    parts = {}
    for name in columns:
        levels = LEVELS.get(name, [True])
        for level in levels[base and len(levels) > 1 :]:
            parts[f"{name}[{level}]"] = (frame[name] == level) * 1.0
    for name in ("power", "age"):
        parts[name] = frame[name].astype(float)
    return pd.DataFrame(parts)
