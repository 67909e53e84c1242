"""Rows that are so many that samples of them pay."""

from tests.conftest import make_problem


def large(loss="logistic", n=60_000, d=20, seed=0, **kwargs):
    """Enough values for samples to pay."""
    return make_problem(n=n, d=d, loss=loss, seed=seed, **kwargs)
