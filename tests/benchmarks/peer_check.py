"""What contestants return on small sets: `python -m tests.benchmarks.peer_check NAME...` in the environment of their library.

Needs what the library needs, no more; the judge sits in test_benchmarks_peers.py.
"""

import json
import sys
import warnings

import numpy as np
import scipy.sparse as sp

from benchmarks.contestants import CONTESTANTS, NotApplicable

C = 2.0
TOLS = {
    "dask-glm-newton": 1e-6,
    "dask-ml-newton": 1e-6,
    "dask-ml-newton-cluster": 1e-6,
    "torch-lbfgs": 1e-7,
}


def small(sparse=False):
    random = np.random.default_rng(5)
    X = random.standard_normal((400, 4)).astype(
        np.float32
    )  # as the sets of the benchmarks: not every peer takes it
    y = np.where(X @ [1.0, -2.0, 0.5, 0.0] + random.standard_normal(400) > 0.3, 1.0, -1.0)
    return (sp.csr_matrix(np.where(abs(X) < 0.5, 0, X)) if sparse else X), y


def answers(name):
    """A record for each loss, kind of rows and intercept: coefficients, or why there are none."""
    contestant = CONTESTANTS[name]
    rival = contestant.load()
    prepare = getattr(rival, "prepare", lambda X, y, **_: (X, y))
    for loss in contestant.losses:
        for sparse in (False, True):
            for fit_intercept in (False, True):
                X, y = small(sparse)
                record = {
                    "name": name,
                    "loss": loss,
                    "sparse": sparse,
                    "fit_intercept": fit_intercept,
                }
                arguments = {"fit_intercept": fit_intercept, "threads": 2, **contestant.options}
                try:
                    held = prepare(X, y, **arguments)
                    coef, intercept, _ = rival.fit(
                        *held, **arguments, loss=loss, C=C, tol=TOLS.get(name, 1e-8)
                    )
                except NotApplicable as reason:
                    yield record | {"not applicable": str(reason)}
                    continue
                yield record | {"coef": np.asarray(coef).tolist(), "intercept": float(intercept)}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for asked in sys.argv[1:]:
        for answer in answers(asked):
            print("\n" + json.dumps(answer), flush=True)
