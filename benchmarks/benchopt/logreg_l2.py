"""daskglm as a solver of benchopt's benchmark_logreg_l2: copy this file into its folder solvers/.

The objective there is sum log(1 + exp(-y x.w)) + lmbd / 2 |w|^2: ours times lmbd, with C = 1 / lmbd
and without an intercept.
"""

import warnings
from typing import ClassVar

from benchopt import BaseSolver
from sklearn.exceptions import ConvergenceWarning

import daskglm


class Solver(BaseSolver):
    """Runs a number of iterations of one of daskglm's solvers, or of the one that it chooses."""

    name = "daskglm"
    sampling_strategy = "iteration"
    requirements: ClassVar = ["pip::daskglm"]
    parameters: ClassVar = {"solver": ["auto", "newton", "tron", "lbfgs", "sdca"]}

    def set_objective(self, X, y, lmbd):
        """Take the rows and the penalty."""
        self.X, self.y, self.C = X, y, 1.0 / lmbd
        # kernels are compiled once per machine, which benchopt should not time
        self.run(1)

    def run(self, n_iter):
        """Fit with at most so many iterations; that some are too few is meant."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model = daskglm.fit(
                self.X,
                self.y,
                loss="logistic",
                C=self.C,
                fit_intercept=False,
                solver=self.solver,
                max_iter=n_iter,
                tol=1e-14,
                random_state=0,
            )

    def get_result(self):
        """Return the coefficients."""
        return {"beta": self.model.coef_.ravel()}
