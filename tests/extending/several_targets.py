"""Several targets a row, each with a loss of one margin: margins from outside of the package."""

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from daskglm.certificates.constants import Intercept
from daskglm.certificates.rounding import Rounding
from daskglm.core.requests import EvaluateAlong, with_vectors
from daskglm.core.view import ALL
from daskglm.objectives.margins import Margins, Sums


@dataclass(frozen=True)
class Each:
    """A request for each target."""

    parts: tuple


class SideBySide:
    """An engine of the same rows with each target, by one engine for each."""

    def __init__(self, engines):
        self.engines, self.rounds, self.bytes_reduced, self.repairs = engines, 0, 0, 0

    @property
    def facts(self):
        return self.engines[0].facts

    @property
    def capabilities(self):
        return replace(self.engines[0].capabilities, cheap_samples=False)

    def total(self, problem, request, view=ALL):
        self.rounds += 1
        pairs = zip(self.engines, request.parts, strict=True)
        found = [engine.total(problem, part, view) for engine, part in pairs]
        return {"parts": found, "rows": found[0]["rows"]}

    def brought(self, problem):
        pass

    def publish(self, iteration):
        pass

    def close(self):
        for engine in self.engines:
            engine.close()


@dataclass(frozen=True, eq=False)
class SeveralTargets(Margins):
    """z_i = V x_i, a row of V for each target, without constants."""

    targets: int
    constants = 0

    @property
    def outputs(self):
        return self.targets

    @property
    def sets(self):
        return self.targets

    def rounding(self, facts, loss, penalty, scale, *, on_device):
        wide = replace(facts, n_features=self.n_features)
        constants = Intercept.of(fit_intercept=False)
        return Rounding(wide, loss, constants, on_device=on_device, penalty=penalty.quadratic)

    def only_side(self, objective):
        return 0.0

    def _split(self, w):
        return w.reshape(self.targets, self.width)

    def asked(self, request):
        def one(k):
            return with_vectors(request, lambda v: self._split(v)[k])

        return Each(tuple(one(k) for k in range(self.targets)))

    def sums(self, w, totals, *, is_sample):
        parts = totals["parts"]
        value = sum(float(part["value"]) for part in parts)
        gradient, *more = np.concatenate([part["gradient"] for part in parts]), None, None
        if "gram" in parts[0]:
            more[0] = scipy.linalg.block_diag(*(part["gram"] for part in parts))
        if "diagonal" in parts[0]:
            more[1] = np.concatenate([part["diagonal"] for part in parts])
        return Sums(value, gradient, *more)

    def product(self, totals, point, v):
        return np.concatenate([part["product"] for part in totals["parts"]])

    def between(self, objective, a, b, steps):
        way = np.stack([1 - steps, steps], axis=1)
        request = EvaluateAlong(((a.token, a.w), (b.token, b.w)), way)
        return sum(part["values"] for part in objective.ask(self.asked(request))["parts"])

    def near_constants(self, objective, point):
        return point

    def best_constants(self, objective, point):
        return point
