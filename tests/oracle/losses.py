"""Losses in long double, all without differences that cancel."""

import numpy as np
from scipy.special import log_ndtr, xlogy

from tests.losses.formulas import BOUNDED, POSITIVE

LONG = np.longdouble
CORNERS = ("hinge", "quantile", "epsilon_insensitive")
# Share of a rounded corner's curvature that rows beside it have, so that no direction is flat.
BESIDE = 1e-7
PLAIN = (
    *("squared", "huber", "logistic", "squared_hinge", "smoothed_hinge"),
    *("squared_epsilon_insensitive", *CORNERS),
)


def less_linear(d):
    """exp(d) - 1 - d."""
    total, term = np.zeros_like(d), np.ones_like(d)
    small = np.where(np.abs(d) < 0.3, d, 0)
    for k in range(1, 22):
        term = term * small / k
        total += term if k > 1 else 0
    return np.where(np.abs(d) < 0.3, total, np.expm1(d) - d)


def less_log1p(x):
    """x - log(1 + x)."""
    small = np.where(np.abs(x) < 0.1, x, 0)
    s = small / (2 + small)
    odd = sum(s ** (2 * k + 1) / (2 * k + 1) for k in range(1, 10))
    return np.where(np.abs(x) < 0.1, small * s - 2 * odd, x - np.log1p(np.maximum(x, -0.999)))


def log_rest(x):
    """log(1 - exp(-x)) of x above zero."""
    return np.where(x < 0.7, np.log(-np.expm1(-x)), np.log1p(-np.exp(-x)))


def linear_less_log(a, b):
    """t - 1 - log(t) of t = a / b."""
    x = (a - b) / b
    return np.where(np.abs(x) < 0.1, less_log1p(x), x - np.log(a / b))


def divergence(p, d, q=None):
    """Of a share p = 1 - q from that whose log odds are higher by d."""
    flip = p > 0.5
    s, t = np.where(flip, 1 - p if q is None else q, p), np.where(flip, -d, d)
    x = s * np.expm1(t)
    far = (
        np.maximum(t, 0) + np.log(np.where(t > 0, s + (1 - s) * np.exp(-np.abs(t)), 1 + x)) - s * t
    )
    return np.where(np.abs(x) < 0.5, s * less_linear(t) - less_log1p(x), far)


def loss_of(loss, y, z, rounded=None):
    """Values, slopes and curvatures of a loss at margins z, in long double.

    Corners are `rounded` if that is given: see `corners_of`.
    """
    if loss.name in CORNERS:
        return corners_of(loss, y, z, rounded)[:3]
    return (plain_of if loss.name in PLAIN else family_of)(loss, y, z)


def corners_of(loss, y, z, rounded=None):
    """Sums over corners of steep max(short, 0), the largest pull times short for pulls from 0 to steep.

    Also those pulls. `rounded` is a width and a pull for each corner and row: half the width times
    the squared distance from that pull is taken off then.
    """
    r, edge = y - z, LONG(loss.p1)
    corners = {
        "hinge": [(LONG(1), 1 - y * z, -y)],
        "quantile": [(edge, r, -1), (1 - edge, -r, 1)],
        "epsilon_insensitive": [(LONG(1), r - edge, -1), (LONG(1), -r - edge, 1)],
    }[loss.name]
    value, slope, curvature = (np.zeros_like(z) for _ in range(3))
    pulls = []
    for k, (steep, short, sign) in enumerate(corners):
        if rounded is None:
            pull = steep * (short > 0)
            value += pull * short
        else:
            width, near = rounded[0], rounded[1][k]
            pull = np.clip(near + short / width, 0, steep)
            value += pull * short - width / 2 * (pull - near) ** 2
            curvature += np.where((pull > 0) & (pull < steep), 1, LONG(BESIDE)) / width
        slope += sign * pull
        pulls.append(pull)
    return value, slope, curvature, pulls


def plain_of(loss, y, z):
    """Least squares, the loss of Huber, and those of labels."""
    name, one, zero = loss.name, np.ones_like(z), np.zeros_like(z)
    r, m = z - y, y * z
    if name == "squared":
        return r * r / 2, r, one
    if name == "huber":
        far = LONG(loss.p1) * (np.abs(r) - LONG(loss.p1) / 2)
        inside = np.abs(r) <= loss.p1
        return np.where(inside, r * r / 2, far), np.clip(r, -loss.p1, loss.p1), inside * one
    if name == "logistic":
        e = np.exp(-np.abs(m))
        p = np.where(m > 0, e, one) / (1 + e)
        return np.maximum(-m, zero) + np.log1p(e), -y * p, e / (1 + e) ** 2
    if name == "squared_epsilon_insensitive":
        beyond = np.maximum(np.abs(r) - LONG(loss.p1), zero)
        return beyond**2, 2 * np.sign(r) * beyond, 2 * one * (beyond > 0)
    short = np.maximum(1 - m, zero)
    if name == "squared_hinge":
        return short**2, -2 * y * short, 2 * one * (m < 1)
    width = LONG(loss.p1)
    inner = short <= width
    return (
        np.where(inner, short**2 / (2 * width), short - width / 2),
        -y * np.minimum(short / width, one),
        (inner & (short > 0)) / width,
    )


def family_of(loss, y, z):
    """Half the unit deviance of families."""
    name, p1 = loss.name, LONG(loss.p1)
    positive = y > 0
    d = z - np.log(np.where(positive, y, 1))
    mu = np.exp(z)
    if name == "poisson":
        return np.where(positive, y * less_linear(d), mu), mu - y, mu
    if name == "gamma":
        return less_linear(-d), -np.expm1(-d), np.exp(-d)
    if name == "tweedie":
        a, b = p1 - 1, 2 - p1
        least = np.where(positive, y, 1) ** b
        up, down = np.exp(b * z), np.where(positive, least * np.exp(-a * d), 0)
        value = least * (less_linear(-a * d) / a + less_linear(b * d) / b)
        return np.where(positive, value, up / b), up - down, a * down + b * up
    if name == "negative_binomial":
        share, rest = p1 * y / (1 + p1 * y), 1 / (1 + p1 * y)  # the rest of a huge count is tiny
        over = 1 / (np.exp(-z) + p1)
        x = z + np.log(p1)
        none = (np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))) / p1
        value = np.where(positive, (y + 1 / p1) * divergence(share, d, rest), none)
        return value, over - y / (1 + p1 * mu), (1 + p1 * y) * over / (1 + p1 * mu)
    if name in POSITIVE:
        parts = positive_loss_of(name, y, z)
        return np.where(z > 0, parts[0], np.inf), *parts[1:]
    inside = (y > 0) & (y < 1)
    if name in BOUNDED:
        parts = bounded_share_of(name, y, z, inside)
        return np.where(loss.link.room(z) > 0, parts[0], np.inf), *parts[1:]
    if name == "binomial_probit":
        return probit_of(np.float64(y), np.float64(z))
    if name == "binomial_cloglog":
        odds = mu / np.expm1(mu)
        log_odds = mu + log_rest(mu)
        shifted = log_odds - np.log(np.where(inside, y / (1 - np.where(inside, y, 0)), 1))
        label = np.where(y == 1, -log_rest(mu), mu)
        value = np.where(inside, divergence(y, shifted), label)
        bend = np.where(mu < 1e-6, mu / 2 - mu * mu / 6, odds * (mu + odds - 1))
        return value, (1 - y) * mu - y * odds, (1 - y) * mu + y * bend
    p, q = 1 / (1 + np.exp(-z)), 1 / (1 + np.exp(z))
    odds = np.log(np.where(inside, y / (1 - np.where(inside, y, 0)), 1))
    m = np.where(y == 1, -z, z)
    label = np.maximum(m, 0) + np.log1p(np.exp(-np.abs(m)))
    return np.where(inside, divergence(y, z - odds), label), (1 - y) * p - y * q, p * q


def positive_loss_of(name, y, z):
    """Those whose links take margins above zero only."""
    some = np.where(y > 0, y, 1)
    if name == "poisson_identity":
        value = np.where(y > 0, y * linear_less_log(z, some), z)
        return value, 1 - y / z, y / z**2
    if name == "poisson_sqrt":
        value = np.where(y > 0, y * linear_less_log(z * z, some), z * z)
        return value, 2 * z - 2 * y / z, 2 + 2 * y / z**2
    if name == "gamma_inverse":
        return linear_less_log(z, 1 / y), y - 1 / z, 1 / z**2
    root = np.sqrt(z)
    return (y * root - 1) ** 2 / (2 * y), (y - 1 / root) / 2, root**-3 / 4


def bounded_share_of(name, y, z, inside):
    """Shares beside the links that take margins below zero, and between zero and one."""
    rest = 1 - np.where(inside, y, 0)
    shifted = -np.log(np.where(inside, y / rest, 1))
    if name == "binomial_log":
        odds = -np.exp(z) / np.expm1(z)
        log_odds = z - log_rest(-z)
        label = np.where(y == 1, -z, -log_rest(-z))
        value = np.where(inside, divergence(y, log_odds + shifted), label)
        return value, (1 - y) * odds - y, (1 - y) * odds * (1 + odds)
    label = np.where(y == 1, -np.log(z), -np.log1p(-z))
    value = np.where(inside, divergence(y, np.log(z) - np.log1p(-z) + shifted), label)
    return value, (z - y) / (z * (1 - z)), y / z**2 + (1 - y) / (1 - z) ** 2


def probit_of(y, z):
    """In double precision, which special functions have."""
    up, down = (np.exp(-z * z / 2 - log_ndtr(m)) / np.sqrt(2 * np.pi) for m in (z, -z))
    value = -y * log_ndtr(z) - (1 - y) * log_ndtr(-z) + xlogy(y, y) + xlogy(1 - y, 1 - y)
    bent = y * up * (up + z) + (1 - y) * down * (down - z)
    return value, (1 - y) * down - y * up, np.maximum(bent, 0)
