"""daskglm as a solver of benchopt's benchmark_ridge: copy this file into its folder solvers/.

The objective there is 1/2 |y - X w - b|^2 + lmbd / 2 |w|^2: ours times lmbd, with C = 1 / lmbd.
With an intercept, b is the last entry of beta; their penalty leaves it out, as ours does.
"""

import warnings
from typing import ClassVar

import numpy as np
from benchopt import BaseSolver
from sklearn.exceptions import ConvergenceWarning

import daskglm


class Solver(BaseSolver):
    """Runs a number of iterations of one of daskglm's solvers, or of the one that it chooses."""

    name = "daskglm"
    sampling_strategy = "iteration"
    requirements: ClassVar = ["pip::daskglm"]
    parameters: ClassVar = {"solver": ["auto", "newton", "lbfgs", "sdca"]}

    def set_objective(self, X, y, lmbd, fit_intercept):
        """Take the rows and the penalty."""
        self.X, self.y, self.C = X, y, 1.0 / lmbd
        self.fit_intercept = fit_intercept
        # kernels are compiled once per machine, which benchopt should not time
        self.run(1)

    def run(self, n_iter):
        """Fit with at most so many iterations; that some are too few is meant."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model = daskglm.fit(
                self.X,
                self.y,
                loss="squared",
                C=self.C,
                fit_intercept=self.fit_intercept,
                solver=self.solver,
                max_iter=n_iter,
                tol=1e-14,
                random_state=0,
            )

    def get_result(self):
        """Return the coefficients, and the intercept behind them if there is one."""
        beta = np.ravel(self.model.coef_)
        if self.fit_intercept:
            beta = np.append(beta, self.model.intercept_)
        return {"beta": beta}
