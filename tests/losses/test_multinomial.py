"""What bounds and solvers rely on: the constants of the softmax."""

import numpy as np

from daskglm.losses.multinomial import LOSS
from daskglm.losses.table import find, law_of


def test_it_is_found_by_its_name():
    assert find("multinomial") is LOSS
    assert law_of(LOSS.ref)[3] != 0  # of the two classes that make it the logistic loss
    assert not LOSS.has_dual
    assert not LOSS.runs_on_gpu


def test_constants_hold_and_are_attained():
    rng = np.random.default_rng(0)
    largest = rate = 0.0
    for _ in range(2000):
        K = rng.integers(2, 6)
        p = rng.dirichlet(np.full(K, rng.choice([0.1, 1.0])))
        H = np.diag(p) - np.outer(p, p)
        largest = max(largest, np.linalg.eigvalsh(H)[-1])
        u, v = rng.normal(size=(2, K))
        third = p @ ((v - p @ v) ** 2 * (u - p @ u))
        second = v @ H @ v
        if second > 1e-12:
            rate = max(rate, abs(third) / (second * np.linalg.norm(u)))
    assert largest <= LOSS.smoothness
    assert rate <= LOSS.self_concordance
    half = np.array([0.5, 0.5])
    H = np.diag(half) - np.outer(half, half)
    assert np.linalg.eigvalsh(H)[-1] == LOSS.smoothness
