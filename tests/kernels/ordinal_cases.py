"""Random rows with ordered classes for kernels, and what requests of them must reply."""

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from daskglm.core.requests import LossRef, Problem
from daskglm.data.blocks import Place, to_block
from daskglm.engines.local import Local
from tests.oracle.ordinal import Reference

cases = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from([np.float32, np.float64]),
        "weighted": st.booleans(),
        "moved": st.booleans(),
        "K": st.integers(2, 6),
        "n": st.integers(12, 400),
        "d": st.integers(1, 40),
        "seed": st.integers(0, 2**31),
    }
)


class Case:
    """Rows, an engine, and the reference without penalty and barrier."""

    def __init__(self, case, *, sparse, pattern=False):
        rng = np.random.default_rng(case["seed"])
        n, d, K = case["n"], case["d"], case["K"]
        X = (rng.standard_normal((n, d)) * np.logspace(0, -1, d)).astype(case["dtype"])
        if sparse:
            X *= rng.random((n, d)) < 0.4
            X = sp.csr_matrix(X)
            if pattern:
                X.data[:] = 0.5
        y = np.concatenate([np.arange(K), rng.integers(0, K, n - K)])
        self.weight = rng.random(n) if case["weighted"] else None
        self.offset = rng.standard_normal(n) if case["moved"] else None
        cut = n // 3
        blocks = [
            to_block(
                X[a:b],
                y[a:b],
                None if self.weight is None else self.weight[a:b],
                None if self.offset is None else self.offset[a:b],
                place=Place(),
                classify=True,
            )
            for a, b in ((0, cut), (cut, n))
        ]
        self.engine = Local(blocks, 2)
        self.problem = Problem(LossRef("ordinal"), classes=tuple(range(K)))
        self.reference = Reference(X, y, np.inf, self.weight, self.offset)
        self.w, self.t = (
            rng.standard_normal(d),
            np.sort(rng.standard_normal(K - 1)) + np.arange(K - 1),
        )
        self.v = rng.standard_normal(d + K - 1)
        self.gram_error = 1e-5 if case["dtype"] == np.float32 and not sparse else 1e-11
        self.shares = np.bincount(y, self.weight, K)

    def logistic_terms(self):
        """Value, gradient and Hessian of the logistic terms alone."""
        whole = self.reference
        at = whole.vector(self.w, self.t)
        value, (g, H) = whole.value(at), whole.derivatives(at)
        gaps = np.diff(self.t)
        value = value + (self.shares[1:-1] * np.log(-np.expm1(-gaps))).sum()
        d = len(self.w)
        for k, gap in enumerate(gaps):
            e = np.zeros(len(at))
            e[d + k : d + k + 2] = -1, 1
            g = g + self.shares[k + 1] / np.expm1(gap) * e
            H = H - self.shares[k + 1] / (4 * np.sinh(gap / 2) ** 2) * np.outer(e, e)
        return float(value), g.astype(float), H.astype(float)


def hessian_of(reply):
    """The Hessian of the logistic terms from the parts of a reply."""
    upper = np.triu(reply["gram"])
    top = np.c_[upper + np.triu(upper, 1).T, reply["cross"]]
    return np.r_[top, np.c_[reply["cross"].T, np.diag(reply["curvatures"])]]
