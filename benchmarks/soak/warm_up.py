"""Kernels of all jobs, compiled and loaded before the time runs."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np

from benchmarks.soak.cases import Asked, Case
from benchmarks.soak.jobs import KINDS, run_job
from daskglm.core.requests import HessianVector, LossRef, Problem
from daskglm.data.partitions import partitions
from daskglm.engines.local import Local
from daskglm.estimators.warm_up import run, tasks

DTYPES = ("float64", "float32")
# Cross-validation of 600 columns, a minute and a half on a busy machine; jobs have a few dozen.
LEFT_OUT = ("batches",)
# Cases of each kind, of other families and penalties.
DRAWN = 8


def warm_up() -> None:
    """Compile the kernels into numba's cache, and load them into this process.

    Compiling one within a worker leaves it 10 to 40 MB larger for good, and loading one a little.
    """
    for task in tasks():
        if task.storage == "dense" and task.fit not in LEFT_OUT:
            run(task)
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for (number, (name, kind)), dtype in product(enumerate(KINDS.items()), DTYPES):
            for _ in range(DRAWN):
                case = Case(number, name, 300, 3, dtype, "process", options=kind.draw(rng, 3))
                run_job(case, Asked(None, "process"))
        X, y = rng.standard_normal((200, 3)), np.where(rng.random(200) < 0.5, -1.0, 1.0)
        # margins that a lost worker had are made anew
        after_loss = Local(partitions(X, y, classify=True).load())
        after_loss.total(
            Problem(LossRef("logistic"), 1.0), HessianVector(np.ones(4), (1, np.ones(4)))
        )
        after_loss.close()
