"""Rows of ordered classes with other links: values, derivatives, narrow gaps, both tails."""

import numpy as np
import pytest
from scipy.special import log_ndtr

from daskglm.core.decisions import ordinal_log_probabilities
from daskglm.losses import ordinal_links
from daskglm.losses.ordinal import LINKS, check_link, link_of_loss, loss_of_link

CODES = {"probit": 1, "cloglog": 2}
GAPS = [1e-9, 1e-4, 0.3, 0.99, 1.01, 5.0]


def row(link, a, b, *, above=True, below=True, gap=None):
    gap = a - b if above and below and gap is None else gap or np.inf
    return np.array(ordinal_links.row(float(CODES[link]), a, b, gap, above, below))


@pytest.mark.parametrize("link", list(CODES))
@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("middle", [-30.0, -4.0, -1.0, 0.0, 0.6, 2.5])
def test_values_are_those_of_probabilities(link, gap, middle):
    t = np.array([middle - 0.5 * gap, middle + 0.5 * gap])
    log = -ordinal_log_probabilities(t, np.zeros(1), link)[0]
    assert row(link, t[0], 0.0, below=False)[0] == pytest.approx(log[0], rel=1e-12)
    found = row(link, t[1], t[0])[0]
    # differences of logarithms of F lose digits where a gap is narrow
    assert found == pytest.approx(log[1], rel=1e-12, abs=1e-13 * (1.0 + abs(middle)) ** 2 / gap)
    assert row(link, 0.0, t[1], above=False)[0] == pytest.approx(log[2], rel=1e-12)


@pytest.mark.parametrize("link", list(CODES))
@pytest.mark.parametrize("gap", GAPS[1:])
@pytest.mark.parametrize("middle", [-30.0, -4.0, -1.0, 0.0, 0.6, 2.5])
def test_derivatives_are_those_of_the_value(link, gap, middle):
    """By a and b the slopes are -up and low; `between` is minus the derivative by both."""
    a, b = middle + 0.5 * gap, middle - 0.5 * gap
    h = 1e-4 * min(gap, 1.0)
    _, up, bent_up, low, bent_low, between = row(link, a, b)

    def differences(f):
        by_a = (f(row(link, a + h, b)) - f(row(link, a - h, b))) / (2 * h)
        by_b = (f(row(link, a, b + h)) - f(row(link, a, b - h))) / (2 * h)
        return np.array([by_a, by_b])

    near = {"rtol": 2e-6, "atol": 1e-7 * (up + low)}
    np.testing.assert_allclose(differences(lambda r: r[0]), [-up, low], **near)
    near["atol"] *= up + low
    found = differences(lambda r: -r[1])
    np.testing.assert_allclose(found, [bent_up + between, -between], **near)
    found = differences(lambda r: r[3])
    np.testing.assert_allclose(found, [-between, bent_low + between], **near)


@pytest.mark.parametrize("link", list(CODES))
@pytest.mark.parametrize("at", [-30.0, -3.0, 0.0, 1.5])
@pytest.mark.parametrize("end", ["first", "last"])
def test_derivatives_of_the_classes_at_the_ends(link, at, end):
    ends = {"below": False} if end == "first" else {"above": False}
    slope = 1 if end == "first" else 3
    sign, h = -1.0 if end == "first" else 1.0, 1e-4
    here, up, down = (row(link, at + t, at + t, **ends) for t in (0.0, h, -h))
    assert sign * here[slope] == pytest.approx((up[0] - down[0]) / (2 * h), rel=1e-6)
    bent = sign * (up[slope] - down[slope]) / (2 * h)
    assert here[slope + 1] == pytest.approx(bent, rel=1e-5)
    assert not here[[4 - slope, 5 - slope, 5]].any()


@pytest.mark.parametrize("middle", [-2.0, 0.0, 1.7])
def test_both_ways_to_the_probit_agree_where_they_meet(middle):
    half = 0.5 if middle == 0.0 else 1.0 / abs(middle)
    near = np.array(ordinal_links._probit_near(middle, half))
    side = -abs(middle)
    far = np.array(ordinal_links._probit_left(side + half, side - half, 2.0 * half))
    if middle > 0.0:
        far = far[[0, 3, 4, 1, 2, 5]]
    np.testing.assert_allclose(near, far, rtol=1e-13)


@pytest.mark.parametrize("link", list(CODES))
@pytest.mark.parametrize("gap", [1e-150, 1e-8, 1.0, 50.0, 2000.0])
def test_far_margins_are_numbers(link, gap):
    for middle in (-1e3, -300.0, -40.0, 40.0, 300.0, 600.0):
        a, b = middle + 0.5 * gap, middle - 0.5 * gap
        for ends in ({}, {"above": False}, {"below": False}):
            found = row(link, a, b, gap=gap, **ends)
            assert not np.isnan(found).any()
            assert (found[1:] >= 0.0).all()
            assert np.isfinite(found[1:]).all()


def test_tails_of_the_probit():
    # phi(m) / Phi(m) is near -m; Phi(m) is near phi(m) / -m
    value, up, bent, *rest = row("probit", -1e3, 0.0, below=False)
    assert value == pytest.approx(-log_ndtr(-1e3), rel=1e-15)
    assert up == pytest.approx(1e3 + 1e-3, rel=1e-11)
    assert bent == pytest.approx(1.0, rel=1e-5)
    assert not any(rest)
    # in the tail an interval is the exponential law of its near end
    value, up, bent_up, low, bent_low, between = row("probit", -999.9, -1000.0)
    assert up == pytest.approx(999.9 / -np.expm1(-0.1 * 999.95), rel=1e-5)
    assert low == pytest.approx(up * np.exp(-0.1 * 999.95), rel=1e-8)


@pytest.mark.parametrize("link", list(CODES))
def test_narrow_gaps_have_the_curvature_of_the_density(link):
    """Up to the square of the gap: -log(gap) for the gap, and -log f for the margin."""
    gap, at = 1e-6, -0.4
    _, up, bent_up, low, bent_low, between = row(link, at + 0.5 * gap, at - 0.5 * gap, gap=gap)
    psi, rise = (at, 1.0) if link == "probit" else (np.exp(at) - 1.0, np.exp(at))
    assert between == pytest.approx(gap**-2, rel=1e-6)
    assert (up - low) == pytest.approx(-psi, abs=1e-8)
    np.testing.assert_allclose([bent_up, bent_low], 0.5 * rise, rtol=1e-6)


@pytest.mark.parametrize("link", list(CODES))
@pytest.mark.parametrize("gap", [0.0, -1.0, np.nan])
def test_thresholds_that_do_not_rise_have_no_value(link, gap):
    code = float(CODES[link])
    assert ordinal_links.row(code, 0.5 + gap, 0.5, gap, True, True)[0] == np.inf


def test_links_have_names_losses_and_shares():
    assert set(LINKS) == {"logit", *CODES}
    share = np.array([1e-12, 0.3, 0.7, 1.0 - 1e-12])
    for name, link in LINKS.items():
        assert link_of_loss(loss_of_link(name).name) is link
        t = link.quantiles(share, np.array([1.0, 0.7, 0.3, 1e-12]))
        back = np.exp(ordinal_log_probabilities(t[:, None][:, 0], np.zeros(1), name))[0]
        np.testing.assert_allclose(np.cumsum(back)[:-1], share, rtol=1e-9)
        assert link.loss.is_bounded == link.splits
    with pytest.raises(ValueError, match="link='cauchit' is not one of 'logit', 'probit', 'clogl"):
        loss_of_link("cauchit")
    check_link(loss_of_link("logit"))
    with pytest.raises(ValueError, match="on a GPU wants link='logit'"):
        check_link(loss_of_link("probit"))
