"""An engine from outside of the package: the rows of several engines as those of one."""

from functools import reduce

import numpy as np

from daskglm.core.engine import Capabilities
from daskglm.core.requests import add
from daskglm.core.view import ALL
from daskglm.engines.local import Local


class JoinedEngines:
    """Answers a request by asking every part and adding up the replies."""

    repairs = 0

    def __init__(self, parts):
        self.parts = parts
        self.facts = reduce(lambda one, other: one.merge(other), [part.facts for part in parts])
        self.rounds = self.bytes_reduced = 0
        # rows are in memory; vectors are copied, as between processes
        self.capabilities = Capabilities(
            "cpu", np, workers=len(parts), answers_samples=True, cheap_samples=True
        )
        self.requests = []

    @classmethod
    def of_blocks(cls, blocks, count):
        """Every `count`-th block to the same part, each part with one thread."""
        return cls([Local(blocks[first::count], 1) for first in range(count)])

    def total(self, problem, request, view=ALL):
        """Answer one request with sums over all rows."""
        self.rounds += 1
        self.requests.append(type(request).__name__)
        return add([part.total(problem, request, view) for part in self.parts])

    def brought(self, problem):
        """The parts stay where they are."""

    def publish(self, iteration):
        """Nobody watches from elsewhere."""

    def close(self):
        """Release the rows."""
        for part in self.parts:
            part.close()
