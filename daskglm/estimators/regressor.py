"""What regressions of one target share: fitting, predictions, R^2."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from daskglm.data.partitions import is_lazy
from daskglm.engines.factory import awaitable_on
from daskglm.estimators.base import LinearModel, same
from daskglm.estimators.score_rows import r_squared
from daskglm.fitting.runner import Trained


class Regressor(RegressorMixin, LinearModel):
    """A regression of one target: numbers predicted, and :math:`R^2`."""

    n_iter_: Any
    solver_: str

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Any:
        """Fit to numbers; arguments, result and errors as for classifiers."""
        return self._fit(X, y, sample_weight, offset=offset)

    def _set_fitted(self, trained: Trained) -> None:
        self.coef_ = trained.coef[0]
        self.intercept_ = trained.intercept[0]
        self.n_iter_ = trained.report.n_iter
        self.solver_ = trained.report.solver

    def predict(self, X: Any, offset: Any = None) -> Any:
        """Predicted numbers, (n,), or (n, k) for k models, with the container type of X."""
        check_is_fitted(self)
        many = np.ndim(self.intercept_) == 1
        count = len(np.atleast_1d(self.intercept_))
        like = np.empty((0, count) if many else 0)
        return self._values(X, same, like, range(count), offset=offset)

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Coefficient of determination :math:`R^2`.

        X, y, weights and errors are those of `fit`. Of dask collections only sums are fetched.
        """
        work = partial(r_squared, self, X, y, sample_weight, offset)
        return awaitable_on(None, is_lazy(X), work)  # type: ignore[return-value]
