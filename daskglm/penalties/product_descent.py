"""Minimise the same model as `descent`, by products with the Hessian, which is not formed.

Proximal gradient steps find the coefficients that are at a kink or at a bound, conjugate gradients
the values of all others (Moré & Toraldo 1991 for bounds, Chen, Curtis & Robinson 2017 for kinks).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from daskglm.penalties.descent import GOOD_STEP, ROUNDING, UNIT, Minimum
from daskglm.penalties.kinks import Kinks

# Proximal gradient steps before conjugate gradients take over. Chosen.
GRADIENT_STEPS = 2
# Factor by which the curvature along a step is overestimated for the next one, and by which the
# estimate falls after each step. Chosen.
SAFETY, RELAX = 1.2, 0.8
# Trials of a proximal gradient step at most. Chosen.
MOST_TRIALS = 20
# Share of the residual of the free coefficients that conjugate gradients leave, where sweeps have
# found others that are free; share of the wanted residual that they leave in any case; and products
# that they take at most. Chosen.
CG_SHARE, CG_ENOUGH, MOST_PRODUCTS = 0.1, 0.5, 200
# Share of the free coefficients that may cross kinks: then the step is long enough. Chosen.
MOST_CROSSED = 0.1
# Curvature, as a share of that of the diagonal, below which a direction is flat.
FLAT = 1e-14
# Shares of such a step that are tried where it crosses kinks or bounds. Chosen.
LENGTHS = (1.0, 0.3, 0.1)
# Products for one model, after which its minimum need not be nearer. Chosen.
MOST_OF_MODEL = 500
# Rounds of both kinds of steps at most, and rounds in turn that may not halve the residual once it
# is small; ten times as many before. Chosen.
MOST_ROUNDS, MOST_IDLE = 500, 10
# By how many times the residual may be larger than foretold where it is asked again whether a point
# is near enough. Chosen.
LOOK = 2.0
# Sweeps over the coefficients before conjugate gradients take over, at most. Chosen.
MOST_SWEEPS = 20

Product = Callable[[np.ndarray], np.ndarray]
# of a point, the gradient of the model's quadratic there, a residual to reach and a number of
# sweeps at most: where coordinate descent leads to, and the number of its sweeps
Sweeps = Callable[[np.ndarray, np.ndarray, float, int], tuple[np.ndarray, int]]
# of a point, and the gradient of the model's quadratic there: by how many times what is left is
# more than enough, about in proportion to the residual
Enough = Callable[[np.ndarray, np.ndarray], float]


def minimise_by_products(
    product: Product,
    diagonal: np.ndarray,
    gradient: np.ndarray,
    w: np.ndarray,
    kinks: Kinks,
    share: float,
    sweeps: Sweeps | None = None,
    enough: Enough | None = None,
) -> Minimum:
    """Minimise g'(v - w) + 1/2 (v - w)' H (v - w) + kinks(v) over v.

    Parameters
    ----------
    product : callable
        Multiplies a vector by H.
    diagonal : (size,) array
        That of H.
    gradient, w, kinks, share
        As of `descent.minimise`.
    sweeps : callable, optional
        Coordinate descent, which takes the place of proximal gradient steps.
    enough : callable, optional
        Says where to end before the residual is as small as `share` wants it. What it said last
        foretells where it is asked again.

    Returns
    -------
    Minimum
    """
    return _Model(product, diagonal, gradient, w, kinks, sweeps, enough).minimise(share)


class _Model:
    """The model, and where its minimisation has come to."""

    def __init__(
        self,
        product: Product,
        diagonal: np.ndarray,
        gradient: np.ndarray,
        w: np.ndarray,
        kinks: Kinks,
        sweeps: Sweeps | None,
        enough: Enough | None,
    ) -> None:
        self.multiply, self.kinks, self.products = product, kinks, 0
        self.sweeps, self.enough = sweeps, enough
        self.is_enough, self.look = False, math.inf
        self.scale = np.where(diagonal > 0.0, diagonal, 1.0)
        # one number for a group, whose minimum in this metric is known
        self.metric = self.scale.copy()
        if kinks.groups:
            most = np.maximum.reduceat(self.scale[kinks.members], kinks.pointers[:-1])
            self.metric[kinks.members] = np.repeat(most, np.diff(kinks.pointers))
        self.begin, self.gradient = w, gradient
        self.v, self.slope = w.copy(), gradient.copy()
        self.settled = False  # whether the last sweeps found the same coefficients to be free
        self.curvature = 1.0  # of the model over that of the metric, along a step

    @np.errstate(over="ignore", invalid="ignore")  # of huge columns
    def minimise(self, share: float) -> Minimum:
        """Take steps until the residual is this share of the first one."""
        first = residual = self._left()
        wanted = max(share, ROUNDING) * first
        best, idle = np.inf, 0
        for _ in range(MOST_ROUNDS):
            most = MOST_IDLE if residual <= 1e-6 * first else 10 * MOST_IDLE
            if residual <= max(wanted, self._noise()) or idle > most or self.is_enough:
                break
            if self.products >= MOST_OF_MODEL:
                break
            if self.sweeps is None:
                for _ in range(GRADIENT_STEPS):
                    self._gradient_step()
            else:
                self._sweep(self.sweeps, wanted)
            residual = self._left()
            if residual > wanted and not self._may_end(residual, 0.0, 0.0):
                self._step_on_free(wanted)
                residual = self._left()
            idle = idle + 1 if residual >= 0.5 * best else 0
            best = min(best, residual)
        return Minimum(self.v, self.slope, residual)

    def product(self, v: np.ndarray) -> np.ndarray:
        """Multiply a vector by H, and count it."""
        self.products += 1
        return self.multiply(v)

    def _may_end(
        self, residual: float, step: np.ndarray | float, change: np.ndarray | float
    ) -> bool:
        """Return whether a step leads near enough, if the residual does not say that it does not.

        `change` is the product of H and the step.
        """
        if self.enough is None or residual > self.look:
            return False
        times = self.enough(self.v + step, self.slope + change)
        self.is_enough = times <= 1.0
        self.look = LOOK * residual / max(times, 1.0)
        return self.is_enough

    def _left(self) -> float:
        """Return the norm of the residual in the inverse of the diagonal."""
        found = self.kinks.residual(self.v, self.slope)
        return float(np.sqrt((found * found / self.scale).sum()))

    def _noise(self) -> float:
        """Bound what rounding may leave of the residual."""
        root = np.sqrt(self.scale)
        sizes = (np.abs(self.gradient) + self.kinks.strengths) / root
        sizes += root * np.abs(self.v - self.begin)
        return 4.0 * UNIT * float(np.linalg.norm(sizes))

    def _sweep(self, sweeps: Sweeps, wanted: float) -> None:
        """Descend along one coefficient after the other, until that gets on slowly."""
        to, count = sweeps(self.v, self.slope, 0.5 * wanted, MOST_SWEEPS)
        self.settled = not ((to == 0.0) != (self.v == 0.0)).any()
        self.products += count
        step = to - self.v
        if step.any():
            self.v, self.slope = to, self.slope + self.product(step)

    def _gradient_step(self) -> None:
        """Take a proximal gradient step as long as the curvature along it allows."""
        for _ in range(MOST_TRIALS):
            metric = self.curvature * self.metric
            to = self.kinks.proximal(self.v - self.slope / metric, metric)
            step = to - self.v
            if not step.any():
                return
            change = self.product(step)
            bent = float(step @ change) / float(step @ (self.metric * step))
            if bent <= self.curvature:
                self.v, self.slope = to, self.slope + change
                self.curvature = max(RELAX * self.curvature, bent)
                return
            self.curvature = SAFETY * bent

    def _step_on_free(self, wanted: float) -> None:
        """Step towards the minimum of the coefficients that are free, those of others as they are.

        A step that crosses kinks or bounds ends there; the first of a few lengths that lowers the
        model enough is taken, or the longest step that crosses none.
        """
        free, here = self.kinks.free(self.v), self.v
        if not len(free):
            return
        step, change = self._conjugate_gradients(free, wanted)
        length = self._first_kink(free, step)
        if length >= 1.0 and not self.kinks.groups:
            self.v, self.slope = here + step, self.slope + change
            return
        pull = self.slope + self.kinks.gradient(here)
        slope = float(pull @ step)
        for t in LENGTHS:
            to = self._kept_on_side(free, here + t * step)
            moved = self.product(to - here)
            if self._rise(to, moved) <= GOOD_STEP * t * slope:
                self.v, self.slope = to, self.slope + moved
                return
        to, moved = self._kept_on_side(free, here + length * step), length * change
        if self._rise(to, moved) < 0.0:
            self.v, self.slope = to, self.slope + moved

    def _conjugate_gradients(
        self, free: np.ndarray, wanted: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return a step of the free coefficients, and its product with H.

        Conjugate gradients are preconditioned by the diagonal.
        """
        scale, here = self.scale[free], self.v[free]
        kinked = self.kinks.strengths[free] > 0.0
        step, change = np.zeros(len(free)), np.zeros_like(self.v)
        residual = -(self.slope + self.kinks.gradient(self.v))[free]
        z = residual / scale
        # all that is about free coefficients only is kept for these: they may be few
        direction, whole = z.copy(), np.zeros_like(self.v)
        square = float(z @ residual)
        # begun anew they have to find again what is slow
        goal = max(CG_ENOUGH * wanted, 0.0 if self.settled else CG_SHARE * np.sqrt(square))
        for _ in range(MOST_PRODUCTS):
            crossed = np.count_nonzero(kinked & (here * (here + step) < 0.0))
            left = np.sqrt(square)
            if left <= goal or crossed > MOST_CROSSED * len(free):
                break
            whole[free] = step
            if self._may_end(left, whole, change):
                break
            whole[free] = direction
            times = self.product(whole)
            along = times[free]
            if self.kinks.groups:
                along += self.kinks.hessian_vector(self.v, whole)[free]
            curvature = float(direction @ along)
            if not curvature > FLAT * float(direction @ (scale * direction)):
                break
            alpha = square / curvature
            step += alpha * direction
            change += alpha * times
            residual -= alpha * along
            z = residual / scale
            square, before = float(z @ residual), square
            direction = z + square / before * direction
        whole[free] = step
        return whole, change

    def _first_kink(self, free: np.ndarray, step: np.ndarray) -> float:
        """Return the share of a step, one at most, at which it first comes to a kink or a bound."""
        kinks, here, step = self.kinks, self.v[free], step[free]
        to, shares = here + step, [1.0]
        kinked = (kinks.strengths[free] > 0.0) & (here * to < 0.0)
        if kinked.any():
            shares.append(float((here[kinked] / -step[kinked]).min()))
        lower, upper = kinks.lower[free], kinks.upper[free]
        for bound, beyond in ((lower, to < lower), (upper, to > upper)):
            if beyond.any():
                shares.append(float(((bound - here)[beyond] / step[beyond]).min()))
        return min(shares)

    def _kept_on_side(self, free: np.ndarray, to: np.ndarray) -> np.ndarray:
        """Return the point with free coefficients zero that have crossed it, within the bounds."""
        crossed = (self.kinks.strengths[free] > 0.0) & (self.v[free] * to[free] <= 0.0)
        to[free[crossed]] = 0.0
        return self.kinks.clip(to)

    def _rise(self, to: np.ndarray, change: np.ndarray) -> float:
        """Return by how much the model rises; `change` is the product of H and the step."""
        step = to - self.v
        kinks = self.kinks.value(to) - self.kinks.value(self.v)
        return float(self.slope @ step) + 0.5 * float(step @ change) + kinks
