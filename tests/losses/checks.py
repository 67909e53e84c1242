"""What every loss of a family must do: derivatives, extremes, digits near the least value, constants."""

import math

import numpy as np

from daskglm.losses.base import LARGEST_FALL
from tests.losses.formulas import reference

LONG = np.longdouble
# from tiny to beyond what exp takes; margins of links that want them positive are the sizes alone
SIZES = [1e-12, 1e-6, 1e-3, 0.1, 0.7, 1.0, 3.0, 10.0, 40.0, 300.0, 690.0, 800.0, 1e3]
# distance from the margin of a row's least value, at which its value is half a square of 1e-6
NEAR = 1e-6


def at(loss, y, z):
    return loss.row(float(y), float(z), loss.p1, loss.p2)


def margins(loss):
    """Margins of all sizes that the loss takes."""
    sizes = [0.0, *SIZES, *(-z for z in SIZES), *(1.0 - z for z in SIZES)]
    return inside(loss, sizes if loss.link.is_bounded else sizes[: 1 + 2 * len(SIZES)])


def inside(loss, margins):
    """Those of the margins that the loss takes."""
    return [z for z in margins if loss.link.room(z) > 0.0]


def check_derivatives(loss, targets):
    """The slope is that of the value; the curvature that of the slope, or the expected one."""
    h = 1e-5
    for y in targets:
        for z in inside(loss, (-6.0, -1.0, -0.1, 0.03, 0.4, 0.9, 2.5)):
            value, slope, curvature = at(loss, y, z)
            low, high = at(loss, y, z - h * z), at(loss, y, z + h * z)
            size = abs(value) + abs(z * slope) + abs(z * z * curvature)
            assert abs((high[0] - low[0]) / (2 * h) - z * slope) <= 1e-8 * size + 1e-12
            if loss.convex:
                of_slopes = (high[1] - low[1]) / (2 * h)
                assert abs(of_slopes - z * curvature) <= 1e-7 * (abs(slope) + abs(z * curvature))


def check_extremes(loss, targets, *, rtol=1e-11, atol=1e-300):
    """Values are exact or not finite, never negative; slopes and curvatures are no other numbers."""
    for y in targets:
        for z in margins(loss):
            value, slope, curvature = at(loss, y, z)
            wanted = [float(part) for part in reference(loss.name, np.array(y), np.array(z))]
            where = f"y={y:g}, z={z:g}"
            # what cancels in the reference, which is rounded to 1e-19 of its terms
            digits = 1e-17 * (1.0 + abs(z)) * (1.0 + abs(y) + (1.0 / abs(y) if y else 0.0))
            assert not value < 0.0, where
            if math.isfinite(value):
                assert abs(value - wanted[0]) <= rtol * abs(wanted[0]) + digits + atol, where
            else:
                # beyond, or within, what numbers in the formula can hold
                assert wanted[0] > 600.0, where
            if math.isfinite(slope) and math.isfinite(wanted[1]):
                # a slope is a difference of numbers of the size of the curvature
                off, small = abs(slope - wanted[1]), atol + 1e-300 * abs(y)
                assert off <= rtol * (abs(wanted[1]) + min(wanted[2], 1e300)) + small, where
            if math.isfinite(curvature):
                assert curvature >= 0.0, where
                known = math.isfinite(wanted[2])
                off = abs(curvature - wanted[2]) if known else 0.0
                assert off <= 1e-9 * wanted[2] + atol + 1e-300 * abs(y), where
        for bad in (math.nan, math.inf, -math.inf):
            assert not math.isfinite(at(loss, y, bad)[0]), f"y={y:g}, z={bad}"
        for outside in (0.0, 1e-9, 1.0, 2.0, 1e3, -1e-9, -1.0, -1e3):
            if loss.link.room(outside) <= 0.0:
                assert at(loss, y, outside)[0] == math.inf


def remainder(d):
    """exp(d) - 1 - d in long double, by its series."""
    total, term = LONG(0), LONG(1)
    for k in range(1, 25):
        term = term * d / k
        total += term if k > 1 else 0
    return total


def check_near_the_least_value(loss, exact, targets):
    """`exact` takes y and the distance of the margin from log(y), both in long double."""
    for y in targets:
        for step in (NEAR, -NEAR, 0.1, -0.4):
            z = math.log(y) + step
            d = LONG(z) - np.log(LONG(y))
            # the margin's own rounding, and that of log(y), beside the distance
            rtol = 1e-12 + 8.0 * np.spacing(abs(math.log(y)) + 1e-3) / abs(step)
            np.testing.assert_allclose(at(loss, y, z)[0], float(exact(LONG(y), d)), rtol=rtol)
        # and at it the value is nothing beside the curvature there
        value, _, curvature = at(loss, y, math.log(y))
        assert 0.0 <= value <= 1e-28 * max(1.0, math.log(y) ** 2) * curvature


def check_self_concordance(loss, targets):
    """|third derivative| <= M curvature, and M is no larger than it must be."""
    h, ratios = 1e-4, []
    for y in targets:
        for z in np.linspace(-30.0, 30.0, 601):
            curvature = at(loss, y, z)[2]
            third = (at(loss, y, z + h)[2] - at(loss, y, z - h)[2]) / (2 * h)
            ratios.append(abs(third) / curvature)
            assert ratios[-1] <= loss.self_concordance * (1 + 1e-6)
    assert max(ratios) >= 0.99 * loss.self_concordance


def check_local_rate(loss, targets, margins):
    """Curvatures fall at the rate near a margin at most, and rise at twice that within rounding."""
    tight = 0.0
    for y in targets:
        for z in margins:
            curvature = at(loss, y, z)[2]
            rate = float(loss.local_rate(np.float64(y), np.float64(z)))
            within = min(LARGEST_FALL / rate, 1e3 * abs(z)) if rate else 1e3 * abs(z)
            for share in (1e-3, 0.1, 0.5, 1.0):
                for d in (share * within, -share * within):
                    if not loss.link.room(z + d) > 0.0:
                        continue
                    other = at(loss, y, z + d)[2]
                    least = curvature * math.exp(-rate * abs(d))
                    assert other >= least * (1 - 1e-9) - 1e-290, f"y={y:g}, z={z:g}, d={d:g}"
                    far = rate * abs(d)
                    if far > 1e-4 and other < curvature:
                        tight = max(tight, math.log(curvature / max(other, 1e-300)) / far)
            falling = max(rate, 2.0 / loss.link.room(z)) if loss.link.is_bounded else rate
            for d in (-0.25 / falling, 0.25 / falling):
                grown = math.exp(0.5 + 1e-9)
                other, faster = at(loss, y, z + d)[2], loss.local_rate(np.float64(y), z + d)
                assert curvature / grown - 1e-290 <= other <= curvature * grown + 1e-290
                assert faster <= rate * grown
    assert tight >= 0.4


def check_fisher(loss, targets):
    """The expected curvature is slope(mean)^2 / variance, whatever the target."""
    sizes = (0.02, 0.3, 1.0, 2.0, 5.0)
    for y in targets:
        for z in inside(loss, (*sizes, *(-z for z in sizes))):
            mean, slope = float(loss.link.mean(z)), float(loss.link.slope(z))
            variance = float(loss.family.variance(mean, loss.p1))
            if variance < 1e-12:  # of a share that has too few digits left beside one
                continue
            wanted = slope * slope / variance
            expected = loss.fisher or (lambda y, z, p1, p2: at(loss, y, z)[2])
            np.testing.assert_allclose(expected(y, z, loss.p1, loss.p2), wanted, rtol=1e-9)


def check_rest_curvature(loss, draw):
    """It is no less than the weighted sum of curvatures where each row's loss is least."""
    rng = np.random.default_rng(0)
    for scale in (1e-6, 1.0, 1e6):
        y, weight = scale * draw(rng, 200), rng.random(200)
        rest = sum(
            s * at(loss, t, math.log(t))[2] for s, t in zip(weight, y, strict=True) if t > 0.0
        )
        told = loss.rest_curvature(float(weight.sum()), float(weight @ y), loss.p1)
        assert rest <= told * (1 + 1e-12)


def check_log_density(loss, logpdf, targets, phi=1.0):
    """The likelihood is SciPy's, for rows of weight one."""
    mu = np.array([0.2, 0.5, 0.8])
    for y in targets:
        found = loss.family.log_density(np.full(3, y), mu, np.ones(3), phi, loss.p1)
        np.testing.assert_allclose(found, logpdf(y, mu), rtol=1e-10)
    if loss.family.dispersion is None or loss.family.name != "binomial":
        # the deviance is twice the difference from the likelihood at mu = y
        y = np.full(3, max(targets))
        at_mu = loss.family.log_density(y, mu, np.ones(3), phi, loss.p1)
        saturated = loss.family.log_density(y, y, np.ones(3), phi, loss.p1)
        half = [at(loss, max(targets), float(loss.link.of_mean(m)))[0] / phi for m in mu]
        np.testing.assert_allclose(saturated - at_mu, half, rtol=1e-9)
