"""Seeds of random tests: new problems at every commit, and the same ones wherever it is checked out."""

import datetime
import os
import subprocess
from pathlib import Path

import pytest

# Longer than CI may take: thousands of problems are no reason to end a test.
SECONDS = 3000

# Seeds that failed at some commit, some with a case: default tests draw them at every one.
FAILED = {
    "unproved": (9300002, 9500152, 9501893, 180983571, 108470378),
    "family bounds": (98227309, 79148322, 100281802),
    "told gaps": (
        (
            "multinomial, elastic net, owlqn, path, few, csr, no weights, no offset, no intercept, "
            "tight, hessians",
            3,
        ),
    ),
}


def base() -> int:
    """Return DASKGLM_SEED, or the first 28 bits of the commit's name; without git the date."""
    if given := os.environ.get("DASKGLM_SEED"):
        return int(given)
    command = ["git", "rev-parse", "HEAD"]
    here = Path(__file__).parent
    try:
        found = subprocess.run(command, cwd=here, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return int(datetime.date.today().strftime("%Y%m%d"))
    return int(found.stdout[:7], 16)


BASE = base()


def fresh(many: int = 100) -> range:
    """Seeds of this commit: its number, and those that follow."""
    return range(BASE, BASE + many)


def of_the_commit_or(known: range, many: int = 100, *, failed: tuple[int, ...] = ()):
    """Mark a test of `seeds` twice: for so many of this commit (slow), and for these always (nightly).

    Those that `failed` once are default tests.

    Shares, such as of fits that converge, are for `is_many(seeds)` only: few may come out otherwise.
    """
    limit = pytest.mark.timeout(SECONDS)
    return pytest.mark.parametrize(
        "seeds",
        [
            pytest.param(fresh(many), id="of the commit", marks=[pytest.mark.slow, limit]),
            pytest.param(known, id="known", marks=[pytest.mark.nightly, limit]),
            *([pytest.param(failed, id="failed once")] if failed else []),
        ],
    )


def is_many(seeds: range) -> bool:
    """Whether a share of these problems is near that of all."""
    return len(seeds) > 100
