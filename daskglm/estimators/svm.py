"""`LinearSVC`: scikit-learn's parameters and attributes, with the hinge losses."""

from __future__ import annotations

from typing import Any

from daskglm.core.arguments import check_choice
from daskglm.estimators.base import Classifier

HINGES = ("squared_hinge", "hinge", "smoothed_hinge")


class LinearSVC(Classifier):
    r"""Linear support vector machine with the squared hinge loss, or the hinge loss.

    These are :math:`\max(0, 1 - y z)^2` and :math:`\max(0, 1 - y z)`. Parameters and attributes are
    those of `LogisticRegression`, and `loss`. The intercept is not penalised; LIBLINEAR penalises
    it, and so does scikit-learn's class of this name.

    Parameters
    ----------
    penalty : {"l2", "l1", "elasticnet", None}, default "l2"
        As of `LogisticRegression`, and so are `l1_ratio` and the parameters after it. The
        hinge wants a penalty of each feature, or bounds on both sides.
    loss : {"squared_hinge", "hinge", "smoothed_hinge"}, default "squared_hinge"
        The first two are LIBLINEAR's L2-loss and L1-loss SVM. The third is the hinge with its
        corner replaced by the parabola :math:`\frac12 (1 - y z)^2`.
    dual : bool or "auto", default "auto"
        True solves the dual problem, by "sdca". False and "auto" leave the choice to `solver`. The
        hinge refuses False, as scikit-learn does.

    Examples
    --------
    >>> import daskglm
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> daskglm.LinearSVC(loss="hinge").fit(X, ["a", "a", "b", "b"]).predict(X)
    array(['a', 'a', 'b', 'b'], dtype='<U1')
    """

    def __init__(
        self,
        penalty: str | None = "l2",
        loss: str = "squared_hinge",
        *,
        dual: bool | str = "auto",
        tol: float = 1e-6,
        C: float = 1.0,
        multi_class: str = "ovr",
        fit_intercept: bool = True,
        intercept_scaling: float = 1,
        class_weight: Any = None,
        verbose: int = 0,
        random_state: Any = None,
        max_iter: int | None = None,
        solver: str = "auto",
        warm_start: bool = False,
        n_jobs: int | None = None,
        progress: bool | None = None,
        stop: str = "gap",
        solver_options: Any = None,
        device: str | None = None,
        device_memory_limit: int | str | None = None,
        l1_ratio: float = 0.0,
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
        self.loss = loss
        self.dual = dual
        self.tol = tol
        self.C = C
        self.multi_class = multi_class
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.verbose = verbose
        self.random_state = random_state
        self.max_iter = max_iter
        self.solver = solver
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.progress = progress
        self.stop = stop
        self.solver_options = solver_options
        self.device = device
        self.device_memory_limit = device_memory_limit
        self.l1_ratio = l1_ratio
        self.penalty_factor = penalty_factor
        self.P2 = P2
        self.lower_bounds = lower_bounds
        self.upper_bounds = upper_bounds
        self.positive = positive
        self.groups = groups
        self.standardize = standardize
        self.schema = schema

    @property
    def _loss(self) -> str:  # type: ignore[override]
        check_choice(self.loss, "loss", HINGES)
        return self.loss
