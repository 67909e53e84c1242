"""An engine from outside of the package: the rows of several engines as those of one."""

from functools import reduce

import numpy as np

from daskglm.core.requests import add
from daskglm.engines.local import Local


class JoinedEngines:
    """Answers a request by asking every part and adding up the replies."""

    device, xp, solves_trust_regions = "cpu", np, False
    samples = answers_samples = True  # of rows in memory
    shares_memory = False  # vectors are copied, as between processes
    repairs = 0

    def __init__(self, parts):
        self.parts = parts
        self.facts = reduce(lambda one, other: one.merge(other), [part.facts for part in parts])
        self.rounds = self.bytes_reduced = 0
        self.requests = []

    @classmethod
    def of_blocks(cls, blocks, count):
        """Every `count`-th block to the same part, each part with one thread."""
        return cls([Local(blocks[first::count], 1) for first in range(count)])

    @property
    def workers(self):
        """How many places answer a request."""
        return len(self.parts)

    def total(self, problem, request):
        """Answer one request with sums over all rows."""
        self.rounds += 1
        self.requests.append(type(request).__name__)
        return add([part.total(problem, request) for part in self.parts])

    def close(self):
        """Release the rows."""
        for part in self.parts:
            part.close()
