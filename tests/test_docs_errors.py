"""The errors that docs/errors.md quotes are those that are raised, to the letter."""

import re
import warnings
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest

import daskglm
from daskglm.core.device import gpu

PAGE = Path(__file__).resolve().parents[1] / "docs" / "errors.md"
QUOTED = re.findall(r"```text\n(.+?)\n```", PAGE.read_text(), re.DOTALL)
X = np.random.default_rng(0).standard_normal((200, 4))
y = (X[:, 0] > 0).astype(int)
LAZY = da.from_array(X, chunks=50)


def missing():
    rows = X.copy()
    rows[3, 1] = np.nan
    daskglm.fit(rows, y)


def too_large():
    part = dask.delayed(lambda: None)()
    rows = da.concatenate([da.from_delayed(part, (1 << 30, 1 << 12), float) for _ in range(4)])
    daskglm.fit(rows, da.ones(rows.shape[0], chunks=1 << 30), loss="squared")


# By the beginning of the text.
RAISE = {
    "ConvergenceWarning: gd": lambda: daskglm.fit(X, y, max_iter=1, solver="gd"),
    "ConvergenceWarning: the classes": lambda: daskglm.fit(X, y, C=np.inf),
    "ValueError: X contains NaN": missing,
    "ValueError: X has values": lambda: daskglm.fit(np.array([["x"], ["y"]] * 100), y),
    "ValueError: column 'a' is text": lambda: daskglm.fit(
        pd.DataFrame({"a": ["1.5", "2"] * 100}), y
    ),
    "ValueError: column 'a' has 200": lambda: daskglm.fit(
        pd.DataFrame({"a": [f"id {i}" for i in range(200)]}), y
    ),
    "ValueError: row 0, column 'a' has the level": lambda: daskglm.fit(
        pd.DataFrame({"a": ["x", "y"] * 100}), y
    ).predict(pd.DataFrame({"a": ["new"]})),
    "ValueError: all rows": lambda: daskglm.fit(X, np.ones(200)),
    "ValueError: Unknown label": lambda: daskglm.fit(X, X[:, 0]),
    "ValueError: Found input": lambda: daskglm.fit(X, y[:-1]),
    "ValueError: the number of columns": lambda: daskglm.fit(
        LAZY[:, LAZY[0] > 0], da.from_array(y, chunks=50)
    ),
    "ValueError: X has 3": lambda: daskglm.LogisticRegression().fit(X, y).predict(X[:, :3]),
    "ValueError: PoissonRegressor was": lambda: (
        daskglm.PoissonRegressor().fit(X, y, exposure=1.0 + y).score(X, y)
    ),
    "MemoryError": too_large,
    "RuntimeError: device='cuda'": lambda: daskglm.fit(X, y, device="cuda"),
}


def test_each_quoted_error_is_tried():
    assert len(QUOTED) >= 10
    for quoted in QUOTED:
        assert sum(quoted.startswith(start) for start in RAISE) == 1, quoted


@pytest.mark.parametrize("start", RAISE)
def test_it_is_raised_as_it_is_quoted(start):
    if "cuda" in start:
        pytest.importorskip("cupy", reason="CuPy is not installed, which the error tells then")
        try:
            gpu()
        except RuntimeError:
            pass
        else:
            pytest.skip("there is a GPU here")
    (quoted,) = (text for text in QUOTED if text.startswith(start))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            RAISE[start]()
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        else:
            said = f"{caught[0].category.__name__}: {caught[0].message}"
    # numbers of memory, and what a driver says, are of this machine
    if start in ("MemoryError", "RuntimeError: device='cuda'"):
        quoted, said = (re.sub(r"[\d.e+]+ GiB", "", text) for text in (quoted, said))
        assert said.startswith(quoted)
    else:
        assert said == quoted
