"""Random problems for kernels, with what NumPy needs to check them."""

import numpy as np
from hypothesis import strategies as st

from daskglm.core.requests import Problem
from daskglm.data.blocks import Place, to_block
from daskglm.engines.local import Local
from daskglm.losses.table import LOSSES
from tests.conftest import make_problem
from tests.losses.formulas import BOUNDED

# curvatures are not the derivatives of slopes: corners, and expected curvatures
KINKED = (
    "squared_hinge",
    "smoothed_hinge",
    "hinge",
    "huber",
    "quantile",
    "epsilon_insensitive",
    "squared_epsilon_insensitive",
    *(name for name, loss in LOSSES.items() if not loss.convex),
)


problems = st.fixed_dictionaries(
    {
        # margins of random coefficients have both signs
        "loss": st.sampled_from([name for name in LOSSES if name not in BOUNDED]),
        "sparse": st.booleans(),
        "dtype": st.sampled_from([np.float32, np.float64]),
        "weighted": st.booleans(),
        "intercept": st.booleans(),
        "offset": st.booleans(),
        "at_zero": st.booleans(),
        "n": st.integers(1, 400),
        "d": st.integers(1, 40),
        "seed": st.integers(0, 2**31),
    }
)


def build(case, threads=2):
    X, y = make_problem(
        case["n"],
        case["d"],
        loss=case["loss"],
        seed=case["seed"],
        sparse=case["sparse"],
        dtype=case["dtype"],
    )
    rng = np.random.default_rng(case["seed"])
    weight = rng.random(case["n"]) * (rng.random(case["n"]) > 0.2) if case["weighted"] else None
    loss = LOSSES[case["loss"]]
    offset = rng.standard_normal(case["n"]) if case["offset"] else None
    block = to_block(X, y, weight, offset, place=Place(), classify=loss.classifies)
    dense = (X.toarray() if case["sparse"] else X).astype(np.float64)
    dense = np.c_[dense, np.ones(case["n"])] if case["intercept"] else dense
    w = rng.standard_normal(dense.shape[1])
    if case["at_zero"]:
        w[: case["d"]] = 0.0
    s = np.ones(case["n"]) if weight is None else weight
    o = np.zeros(case["n"]) if offset is None else offset
    return (
        Local([block], threads),
        Problem(loss.ref, 1.0 if loss.classifies else None),
        dense,
        y,
        s,
        o,
        w,
        rng,
    )


def weighted_case(loss, d, dtype, *, sparse=False, seed=3):
    """Return the case of 1,301 rows with weights, offsets and an intercept, away from w = 0."""
    return dict(
        loss=loss,
        sparse=sparse,
        dtype=dtype,
        weighted=True,
        intercept=True,
        offset=True,
        at_zero=False,
        n=1301,
        d=d,
        seed=seed,
    )
