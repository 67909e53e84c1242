"""The one property of all fits: a told gap is not below the truth.

Problems are new at every commit (`tests.seeds`): a failure names its seed and case, for `told_gaps.check`.
"""

import itertools
import math
from dataclasses import asdict

import pytest

from daskglm.losses.builtin import BUILTIN
from daskglm.losses.table import JOINT_LOSSES, find
from tests import seeds
from tests.covering import holds
from tests.integration.told_gaps import (
    CASES,
    CHOICES,
    LOSSES,
    REFUSALS,
    UNPROVED,
    Case,
    check,
    draw,
    fit,
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_told_gap_is_not_below_the_truth(case):
    check(case, seeds.BASE)


@pytest.mark.parametrize(("name", "seed"), seeds.FAILED["told gaps"])
def test_cases_that_once_failed(name, seed):
    check(Case.named(name), seed)


@pytest.mark.parametrize("loss", UNPROVED)
def test_nothing_is_told_of_losses_without_a_proof(loss):
    case = Case(loss)
    ((model, _),) = fit(case, draw(case, seeds.BASE))
    assert math.isnan(model.report_.relative_gap)


def test_all_losses_are_among_the_cases():
    known = {loss.name for loss in BUILTIN} | set(JOINT_LOSSES)
    assert {find(name).name for name in (*LOSSES, *UNPROVED)} == known


def _not_allowed():
    """Up to three choices that the rules do not allow together, of which fewer are allowed."""
    found, usual = [], asdict(Case())
    parts = (names for count in (1, 2, 3) for names in itertools.combinations(CHOICES, count))
    for names in parts:
        for values in itertools.product(*(CHOICES[name] for name in names)):
            changed = dict(zip(names, values, strict=True))
            seen = any(each.items() <= changed.items() for each in found)
            if not (seen or holds(REFUSALS, usual | changed)):
                found.append(changed)
    return found


def test_what_the_cases_leave_out_is_refused():
    found = _not_allowed()
    assert len(found) > 50
    for changed in found:
        case = Case(**changed)
        with pytest.raises(ValueError, match=r"takes|wants|needs|solve|has none|not implemented"):
            fit(case, draw(case, seeds.BASE))
