"""`LogisticRegression`: scikit-learn's parameters and attributes, probabilities of classes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from daskglm.core.decisions import probabilities, softmax_probabilities
from daskglm.estimators.base import Classifier
from daskglm.estimators.fitted_record import loss_of_fit
from daskglm.losses.table import JOINT_LOSSES


class LogisticRegression(Classifier):
    r"""Logistic regression; of more than two classes the softmax.

    The loss is :math:`\log(1 + \exp(-y z))`, of several classes
    :math:`\log \sum_k \exp(z_k) - z_y` with coefficients for each class. These are unique by the
    penalty, and sum to zero over the classes, as the intercepts are chosen to.

    Parameters
    ----------
    penalty : {"l2", "l1", "elasticnet", None}, default "l2"
        None: no penalty, as with C = inf. "l1": that of `l1_ratio=1`. All others leave the kind to
        `l1_ratio`, also "deprecated", scikit-learn's default.
    C : float, default 1.0
        Weight of the losses against the penalty; infinity: no penalty.
    l1_ratio : float or None, default 0.0
        Share of the L1 penalty, from 0 (:math:`\frac12 |w|^2`; None too) to 1 (:math:`|w|_1`: many
        coefficients are zero). See docs/penalties.md for this and the other parameters of the
        penalty.
    dual : bool or "auto", default False
        True solves the dual problem, by "sdca". False and "auto" leave the choice to `solver`.
    tol : float, default 1e-6
        Bound on relative suboptimality, :math:`(f - f^*) / f^*`, at which to stop. Where nothing is
        proved: share of the value by which Newton's step would lower it. In scikit-learn `tol`
        bounds the gradient instead: see docs/scikit-learn.md.
    fit_intercept : bool, default True
        Whether to fit an intercept, which is never penalised.
    intercept_scaling : float, default 1
        Any number above 0, without effect: it scales the penalty of the intercept in LIBLINEAR, and
        the intercept is not penalised here.
    class_weight : dict or "balanced", optional
        Factors of the rows' weights by label; labels that y lacks are ignored.
    random_state : int, optional
        Seed of the order in which "sdca" visits rows.
    solver : str, default "auto"
        "newton", "tron", "lbfgs", "gd", "sdca", "proximal_newton" or "owlqn"; docs/solvers.md says
        which takes which penalty, and at what cost. "auto" chooses by the shape of the data and
        gives the reason in `report_`. Names of scikit-learn's and dask-ml's solvers are mapped to
        the nearest of these, which `report_` says too.
    max_iter : int, optional
        Iterations at most, 0 for the solver's first point; default: the solver's own.
    verbose : int, default 0
        Above 0 shows progress, as `progress=True` does.
    warm_start : bool, default False
        Whether to start from the coefficients of the previous fit.
    n_jobs : int, optional
        Threads of a fit in this process; None and -1: all processors. A cluster's workers have
        threads of their own.
    multi_class : {"auto", "multinomial", "ovr"}, default "auto"
        "ovr" fits more than two classes one against the rest; all others mean the softmax
        ("deprecated", scikit-learn's default, too). For two classes it is without effect.
    stop : {"gap", "coefficients"}, default "gap"
        What `tol` bounds: relative suboptimality, or :math:`|w - w^*| / |w|`, the relative
        error of the coefficients.
    progress : bool, optional
        True shows a progress bar, False none; default: on long fits in a terminal or notebook.
    solver_options : dict, optional
        Further arguments of the solver: `step` and `epsilon` of "gd"; those of
        `daskglm.solvers.sdca.sdca`.
    device, device_memory_limit
        See `daskglm.fit`.
    penalty_factor, P2, lower_bounds, upper_bounds, positive, groups, standardize, schema
        Penalties that differ among features, bounds of coefficients, group lasso: see
        `daskglm.fit`. Of more than two classes they are the same for all.

    Attributes
    ----------
    coef_ : (1, d) or (classes, d) array of float64
        float32 rows too; a SciPy CSR matrix after `sparsify`.
    intercept_ : (1,) or (classes,) array
    classes_ : (classes,) array
    n_iter_ : (1,) array; (classes,) for one against the rest
    n_features_in_ : int
    feature_names_in_ : (d,) array, where X has string column names
    report_ : Report
        How good the answer is and what it cost.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> import daskglm
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = daskglm.LogisticRegression().fit(X, y)
    >>> model.report_.relative_gap <= 1e-6
    True
    """

    @property
    def _loss(self) -> str:  # type: ignore[override]
        return "multinomial" if self._is_multinomial else "logistic"

    @property
    def _is_multinomial(self) -> bool:
        """Whether more than two classes are fitted together."""
        return bool(self.multi_class != "ovr")

    def __init__(
        self,
        penalty: str | None = "l2",
        *,
        C: float = 1.0,
        l1_ratio: float | None = 0.0,
        dual: bool | str = False,
        tol: float = 1e-6,
        fit_intercept: bool = True,
        intercept_scaling: float = 1,
        class_weight: Any = None,
        random_state: Any = None,
        solver: str = "auto",
        max_iter: int | None = None,
        verbose: int = 0,
        warm_start: bool = False,
        n_jobs: int | None = None,
        multi_class: str = "auto",
        progress: bool | None = None,
        stop: str = "gap",
        solver_options: Any = None,
        device: str | None = None,
        device_memory_limit: int | str | None = None,
        penalty_factor: Any = None,
        P2: Any = None,
        lower_bounds: Any = None,
        upper_bounds: Any = None,
        positive: bool = False,
        groups: Any = None,
        standardize: bool = False,
        schema: Any = None,
    ) -> None:
        self.penalty = penalty
        self.C = C
        self.l1_ratio = l1_ratio
        self.dual = dual
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.random_state = random_state
        self.solver = solver
        self.max_iter = max_iter
        self.verbose = verbose
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.multi_class = multi_class
        self.progress = progress
        self.stop = stop
        self.solver_options = solver_options
        self.device = device
        self.device_memory_limit = device_memory_limit
        self.penalty_factor = penalty_factor
        self.P2 = P2
        self.lower_bounds = lower_bounds
        self.upper_bounds = upper_bounds
        self.positive = positive
        self.groups = groups
        self.standardize = standardize
        self.schema = schema

    @property
    def _fitted_together(self) -> bool:
        """Whether the classes of the fit were fitted together."""
        return loss_of_fit(self).name in JOINT_LOSSES

    def predict_proba(self, X: Any, offset: Any = None) -> Any:
        """Return probabilities of the classes, (n, classes), in the container of X.

        One-vs-rest probabilities are normalised to sum to one.
        """
        check_is_fitted(self)
        return self._by_class(X, self._probabilities, offset)

    def predict_log_proba(self, X: Any, offset: Any = None) -> Any:
        """Logarithms of `predict_proba`."""
        check_is_fitted(self)
        return self._by_class(X, partial(_logarithms, self._probabilities), offset)

    @property
    def _probabilities(self) -> Any:
        """What turns decision values into probabilities."""
        return softmax_probabilities if self._fitted_together else probabilities

    def _by_class(self, X: Any, finish: Any, offset: Any) -> Any:
        like = np.empty((0, len(self.classes_)))
        return self._values(X, finish, like, self.classes_, offset=offset)


def _logarithms(of: Any, scores: np.ndarray) -> np.ndarray:
    """Return the logarithms of what `of` makes of decision values; -inf of 0."""
    logarithms: np.ndarray = np.log(of(scores))
    return logarithms
