"""What conjugate gradients learn of a Hessian, kept as a preconditioner for the next system."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import numpy as np
import scipy.linalg

from daskglm.core.device import Array
from daskglm.objectives.primal import Objective
from daskglm.solvers.linear_systems import Diagonal, Metric
from daskglm.solvers.workload import Workload

# Least curvature of a pair, as a share of its norms; rounding may be all of less.
FLAT = 1e-14


class SecantPairs:
    """Steps s and changes y = H s of the gradient: the latest directions of conjugate gradients.

    The Hessians of a Newton method change little from point to point, so the inverse BFGS matrix of
    the last system's pairs preconditions the next (Morales & Nocedal 2000), and the step that was
    taken, with the change of the gradient over it, tells what did change. None where
    vectors are on a device.

    Parameters
    ----------
    objective : Objective
    steps, changes : (pairs, size) arrays, optional
        Those of a solve to resume.
    """

    def __init__(
        self,
        objective: Objective,
        steps: np.ndarray | None = None,
        changes: np.ndarray | None = None,
    ) -> None:
        most = Workload.of(objective).most_pairs if objective.xp is np else 0
        self._kept: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=most)
        if steps is not None and changes is not None:
            self._kept.extend(zip(steps, changes, strict=True))

    def state(self) -> dict[str, np.ndarray]:
        """Return the keyword arguments of a solve that resumes."""
        if not self._kept:
            return {}
        steps, changes = map(np.stack, zip(*self._kept, strict=True))
        return {"steps": steps, "changes": changes}

    def learn(self, step: np.ndarray, change: np.ndarray) -> None:
        """Keep a pair, if it has curvature; the oldest makes room."""
        if self._kept.maxlen:
            norms = math.sqrt(float(step @ step) * float(change @ change))
            if float(step @ change) > FLAT * norms:
                self._kept.append((step, change))

    def learning(self, product: Callable[[Array], Array]) -> Callable[[Array], Array]:
        """Return the product with a Hessian, that is learnt from."""

        def learnt(direction: Array) -> Array:
            found = product(direction)
            self.learn(direction, found)
            return found

        return learnt

    def around(self, M: Metric) -> Metric | QuasiNewton:
        """Return the inverse BFGS matrix of the pairs around the inverse of M."""
        return QuasiNewton(M, **self.state()) if self._kept else M


class QuasiNewton:
    """The inverse BFGS matrix of pairs around that of M, of all pairs at once.

    Byrd, Nocedal & Schnabel 1994, theorem 2.2, in the order of the two loops of L-BFGS. The inverse
    of a diagonal is scaled down to the pair that it agrees with best, as in
    `linear_systems.inverse_times`; the Hessian of a sample has the right scale.

    Parameters
    ----------
    M : Diagonal or DenseMetric
    steps, changes : (pairs, size) arrays
        Of curvatures above zero.
    """

    def __init__(self, M: Metric, steps: np.ndarray, changes: np.ndarray) -> None:
        self._M, self._steps, self._changes = M, steps, changes
        products = steps @ changes.T
        self._curvatures = products.diagonal()
        self._scale = 1.0
        if isinstance(M, Diagonal):
            squares = np.square(changes) @ (1.0 / M.values)
            self._scale = min(float(np.max(self._curvatures / squares)), 1.0)
        # of the products' upper triangle
        self._inverse = scipy.linalg.solve_triangular(products, np.eye(len(steps)))

    def solve(self, v: np.ndarray) -> np.ndarray:
        """Multiply v by the inverse."""
        along = self._inverse @ (self._steps @ v)
        found = self._scale * self._M.solve(v - along @ self._changes)
        back = self._inverse.T @ (self._curvatures * along - self._changes @ found)
        return found + back @ self._steps
