"""daskglm as a solver of benchopt's benchmark_logreg_l1: copy this file into its folder solvers/.

The objective there is sum log(1 + exp(-y x.w)) + lmbd |w|_1: ours times lmbd, with C = 1 / lmbd and
without an intercept.
"""

import warnings
from typing import ClassVar

from benchopt import BaseSolver
from benchopt.stopping_criterion import SufficientProgressCriterion
from sklearn.exceptions import ConvergenceWarning

import daskglm


class Solver(BaseSolver):
    """Fits until a relative gap is proved."""

    name = "daskglm"
    sampling_strategy = "tolerance"
    # neighbouring tolerances may need the same number of steps, which is no reason to end a curve
    stopping_criterion = SufficientProgressCriterion(patience=6, strategy="tolerance")
    requirements: ClassVar = ["pip::daskglm"]

    def set_objective(self, X, y, lmbd):
        """Take the rows and the penalty."""
        self.X, self.y, self.C = X, y, 1.0 / lmbd
        # kernels are compiled once per machine, which benchopt should not time
        self.run(1e-3)

    def run(self, tol):
        """Fit to a tolerance; that rounding may keep it from the smallest is meant."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model = daskglm.fit(
                self.X,
                self.y,
                loss="logistic",
                C=self.C,
                l1_ratio=1.0,
                fit_intercept=False,
                tol=min(tol, 0.5),
                random_state=0,
            )

    def get_result(self):
        """Return the coefficients."""
        return {"beta": self.model.coef_.ravel()}
