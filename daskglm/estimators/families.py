"""Regressions of exponential families: `GeneralizedLinearRegressor`, and those of one family."""

from __future__ import annotations

import re
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from daskglm.core.arguments import check_choice, is_number
from daskglm.data.partitions import is_lazy
from daskglm.engines.factory import awaitable_on
from daskglm.estimators.base import LinearModel, same
from daskglm.estimators.deviance_score import deviance_explained
from daskglm.estimators.fitted_data import Known
from daskglm.estimators.fitted_record import loss_of_fit
from daskglm.estimators.score_rows import r_squared
from daskglm.fitting.config import FitConfig
from daskglm.fitting.family_parameter import SEARCHES, train_with_parameter
from daskglm.fitting.runner import Trained
from daskglm.losses.table import find, loss_of_family

TYPES = ("response", "link")
# Families of the powers of the variance that have a name.
POWERS = {0.0: "gaussian", 1.0: "poisson", 2.0: "gamma", 3.0: "inverse_gaussian"}
# What stands for the parameter of a family where the fit is to find it.
ESTIMATE = "estimate"
_TO_ESTIMATE = re.compile(rf"\s*(?P<name>\w+)\s*\(\s*{ESTIMATE}\s*\)\s*")


class FamilyRegressor(RegressorMixin, LinearModel):
    """Base of regressions of a family: mean of s_i l(y_i, x_i.w + b) + alpha/2 |w|^2.

    l is half the unit deviance. Subclasses give the loss as `_loss`.
    """

    alpha: float
    n_iter_: int
    family_parameter_: float

    def _settings(self, **more: Any) -> FitConfig:
        return super()._settings(**{"average": True, **more})

    @property
    def _estimates(self) -> bool:
        """Whether the fit finds the parameter of the family."""
        return False

    def _fit_now(
        self,
        X: Any,
        y: Any,
        settings: FitConfig,
        known: Known,
        data: dict[str, Any],
        start: Any,
        client: Any,
    ) -> LinearModel:
        if not self._estimates:
            return super()._fit_now(X, y, settings, known, data, start, client)
        trained = train_with_parameter(X, y, settings, **data, start=start, client=client)
        return self._adopt(trained, known)

    def _set_parameter(self) -> None:
        """Set the attributes of an estimated parameter, and remove those of an earlier fit."""
        for name in ("family_parameter_", "theta_", "power_"):
            self.__dict__.pop(name, None)
        if self.record_.estimated is not None:
            self.family_parameter_ = self.record_.parameter
            setattr(self, f"{self.record_.estimated}_", self.family_parameter_)

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        offset: Any = None,
        exposure: Any = None,
    ) -> Any:
        """Fit to targets of the family.

        Parameters
        ----------
        X : (n, d) array, CSR matrix, DataFrame, dask array or dataframe, or list of delayed blocks
        y : (n,) targets in a matching container, or the name of a column of X
        sample_weight : (n,) non-negative weights, or the name of a column of X; default: ones
            For "binomial", whose targets are shares, these are the numbers of trials.
        offset : (n,) numbers that are added to the margins, or the name of a column of X
        exposure : (n,) positive numbers, or the name of a column of X
            By which means are multiplied: with a log link their logarithms are an offset.

        Returns
        -------
        self; an awaitable of it where the current client is asynchronous.

        Raises
        ------
        ValueError
            For NaN or infinite values, targets that the family does not have (with their partition
            and row), lengths that differ, or parameters out of range.
        """
        return self._fit(X, y, sample_weight, offset=offset, exposure=exposure)

    def _set_fitted(self, trained: Trained) -> None:
        self.coef_ = trained.coef[0]
        self.intercept_ = trained.intercept[0]
        self.n_iter_ = trained.report.n_iter
        self.solver_ = trained.report.solver
        self._set_parameter()

    def predict(
        self, X: Any, offset: Any = None, exposure: Any = None, type: str = "response"
    ) -> Any:
        """Return means, (n,), in the container of X; with type="link" their margins.

        Offset and exposure are as for `fit`.
        """
        check_choice(type, "type", TYPES)
        link = loss_of_fit(self).link
        finish = same if type == "link" or link is None else link.mean
        return self._values(X, finish, np.empty(0), offset=offset, exposure=exposure)

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        offset: Any = None,
        exposure: Any = None,
    ) -> float:
        """:math:`D^2`, the share of the deviance of the mean target that the model explains.

        The mean is that of these rows, without offsets. :math:`R^2` for losses that are of no
        family. Of dask collections only sums are fetched.
        """
        is_family = loss_of_fit(self).family is not None
        score = deviance_explained if is_family else r_squared
        work = partial(score, self, X, y, sample_weight, offset, exposure)
        return awaitable_on(None, is_lazy(X), work)  # type: ignore[return-value]

    @property
    def deviance_(self) -> float:
        """Twice the weighted sum of the losses of the fit."""
        return self._statistic("deviance")

    @property
    def null_deviance_(self) -> float:
        """The deviance of the best constant, with the offsets."""
        return self._statistic("null_deviance")

    @property
    def dispersion_(self) -> float:
        """Pearson's statistic over rows less coefficients."""
        return self._statistic("dispersion")

    @property
    def log_likelihood_(self) -> float:
        """Logarithm of the likelihood; nan where the family has none here."""
        return self._statistic("log_likelihood")

    @property
    def aic_(self) -> float:
        """Akaike's information criterion; nan with a penalty."""
        return self._statistic("aic")

    @property
    def bic_(self) -> float:
        """Bayesian information criterion; nan with a penalty."""
        return self._statistic("bic")

    def _statistic(self, name: str) -> float:
        check_is_fitted(self, "report_")
        return float(getattr(self.report_, name))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        try:
            family = find(self._loss).family
        except ValueError:  # parameters that `fit` will refuse
            return tags
        if family is not None:
            tags.target_tags.positive_only = bool(family.domain.outside(np.array([-1.0]))[0])
        return tags


class GeneralizedLinearRegressor(FamilyRegressor):
    r"""Regression of an exponential family with a link, or of any other loss of numbers.

    Minimises the weighted mean of half the unit deviance plus :math:`\frac{\alpha}{2} |w|^2`, or
    `alpha` times another penalty, as scikit-learn's and glum's regressions do; the intercept is not
    penalised.

    Parameters
    ----------
    family : str, default "gaussian"
        "gaussian", "binomial" (shares y, weights are trials), "poisson", "gamma",
        "inverse_gaussian", "tweedie(power)", "negative_binomial(theta)"; or the name of a loss,
        such as "huber(1.35)". "tweedie(estimate)" and "negative_binomial(estimate)" find the
        likeliest power (1 < power < 2) and theta; a theta of 0 is Poisson, with a warning.
    link : str, default "auto"
        "auto" is the first of: gaussian identity, log, inverse; binomial logit, probit, cloglog,
        log, identity; poisson log, identity, sqrt; gamma log, inverse, identity; inverse_gaussian
        log, 1/mu^2, identity; tweedie log, identity, power; negative_binomial log. "power" is the
        canonical :math:`\mu^{1 - p}` of tweedie(p), and "power(0.5)" is :math:`\mu^{0.5}`.
        docs/families.md says which have a proof.
    alpha : float, default 1.0
        Strength of the penalty; 0: none.
    l1_ratio : float, default 0.0
        The share :math:`\rho` in the penalty
        :math:`\alpha (\rho |w|_1 + \frac{1 - \rho}{2} |w|^2)`.
    fit_intercept : bool, default True
    solver : str, default "auto"
        As of `LogisticRegression`.
    max_iter : int, optional
        Iterations at most; default: the solver's own.
    tol : float, default 1e-6
        Bound on relative suboptimality at which to stop, or, where nothing is proved (`report_`
        says so), share of the value by which Newton's step would lower it.
    warm_start : bool, default False
        Whether to start from the coefficients of the previous fit.
    random_state, n_jobs, verbose, progress, stop, solver_options, device, device_memory_limit
        As of `LogisticRegression`.
    penalty_factor, P2, lower_bounds, upper_bounds, positive, groups, standardize, schema
        See `daskglm.fit`.

    Attributes
    ----------
    coef_ : (d,) array of float64
    intercept_ : float
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : (d,) array, where X has string column names
    family_parameter_ : float
        Where it is estimated; also as `power_` or `theta_`.
    deviance_, null_deviance_, dispersion_, log_likelihood_, aic_, bic_ : float
        Rows of weight zero do not count. Weights are read as precisions; where they count equal
        rows, `inference(..., weights="frequency")` has the criteria of these.
    record_ : FitRecord
        What was fitted: docs/inference.md.
    report_ : Report
        How good the answer is and what it cost.

    Examples
    --------
    >>> import daskglm
    >>> X, counts, years = [[0.0], [0.0], [1.0], [1.0]], [2, 4, 8, 4], [1.0, 2.0, 2.0, 1.0]
    >>> model = daskglm.GeneralizedLinearRegressor("poisson", alpha=0, tol=1e-12)
    >>> model.fit(X, counts, exposure=years).coef_.round(6)
    array([0.693147])
    """

    def __init__(
        self,
        family: str = "gaussian",
        *,
        link: str = "auto",
        alpha: float = 1.0,
        fit_intercept: bool = True,
        solver: str = "auto",
        max_iter: int | None = None,
        tol: float = 1e-6,
        random_state: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
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
        self.family = family
        self.link = link
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose
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
        match = _match(self.family)
        if match is None:
            return loss_of_family(self.family, self.link).full_name
        name = match["name"]
        if name not in SEARCHES:
            raise ValueError(
                f"family={self.family!r}: a parameter can be estimated of {', '.join(SEARCHES)}"
            )
        return _with_log_link(name, self.link)

    @property
    def _estimates(self) -> bool:
        return _match(self.family) is not None


def _with_log_link(family: str, link: Any) -> str:
    """Return the loss of a family whose parameter is estimated; ValueError for other links."""
    loss = loss_of_family(family, link)
    if loss is not loss_of_family(family):
        raise ValueError(
            f"link={link!r}: the parameter of {family!r} is estimated with the log link only"
        )
    return loss.full_name


def _match(family: Any) -> re.Match[str] | None:
    """Return the name of a family whose parameter is to be estimated, else None."""
    return _TO_ESTIMATE.fullmatch(family) if isinstance(family, str) else None


class OneFamily(FamilyRegressor):
    """Base of the regressions of one family, which have scikit-learn's parameters."""

    _family: ClassVar[str]

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        fit_intercept: bool = True,
        solver: str = "auto",
        max_iter: int | None = None,
        tol: float = 1e-6,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
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
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state
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
        return self._family


class PoissonRegressor(OneFamily):
    """Poisson regression with a log link, of counts or rates y >= 0.

    Parameters and attributes are those of `GeneralizedLinearRegressor` without family and link.

    Examples
    --------
    >>> import daskglm
    >>> model = daskglm.PoissonRegressor(alpha=0, tol=1e-12).fit([[0.0], [1.0]], [1.0, 2.0])
    >>> model.predict([[2.0]]).round(6)
    array([4.])
    """

    _family = "poisson"


class GammaRegressor(OneFamily):
    """Gamma regression with a log link, of targets y > 0.

    Parameters and attributes are those of `GeneralizedLinearRegressor` without family and link.

    Examples
    --------
    >>> import daskglm
    >>> model = daskglm.GammaRegressor(alpha=0, tol=1e-12).fit([[0.0], [1.0]], [1.0, 2.0])
    >>> model.predict([[2.0]]).round(6)
    array([4.])
    """

    _family = "gamma"


class TweedieRegressor(OneFamily):
    r"""Regression with the variance :math:`\phi \mu^p`, p being the power.

    Other parameters and attributes are those of `GeneralizedLinearRegressor`.

    Parameters
    ----------
    power : float or "estimate", default 0.0
        0 gaussian, 1 Poisson, 2 gamma, 3 inverse Gaussian; between 1 and 2 a compound of Poisson
        and gamma, above 2 for targets y > 0. Others are refused. "estimate" finds the likeliest
        between 1 and 2, which is then `power_`.
    link : {"auto", "identity", "log"}, default "auto"
        "auto" is the identity for power 0, else the logarithm.

    Examples
    --------
    >>> import daskglm
    >>> model = daskglm.TweedieRegressor(power=1.5, alpha=0, tol=1e-12)
    >>> model.fit([[0.0], [1.0], [2.0]], [0.0, 2.0, 4.0]).predict([[2.0]]).round(4)
    array([5.0467])
    """

    def __init__(
        self,
        *,
        power: float | str = 0.0,
        alpha: float = 1.0,
        fit_intercept: bool = True,
        link: str = "auto",
        solver: str = "auto",
        max_iter: int | None = None,
        tol: float = 1e-6,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
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
        super().__init__(
            alpha=alpha,
            fit_intercept=fit_intercept,
            solver=solver,
            max_iter=max_iter,
            tol=tol,
            warm_start=warm_start,
            verbose=verbose,
            random_state=random_state,
            n_jobs=n_jobs,
            progress=progress,
            stop=stop,
            solver_options=solver_options,
            device=device,
            device_memory_limit=device_memory_limit,
            l1_ratio=l1_ratio,
            penalty_factor=penalty_factor,
            P2=P2,
            lower_bounds=lower_bounds,
            upper_bounds=upper_bounds,
            positive=positive,
            groups=groups,
            standardize=standardize,
            schema=schema,
        )
        self.power = power
        self.link = link

    @property
    def _loss(self) -> str:  # type: ignore[override]
        check_choice(self.link, "link", ("auto", "identity", "log"))
        if self._estimates:
            return _with_log_link("tweedie", self.link)
        if not is_number(self.power):
            raise ValueError(
                f"power={self.power!r} must be a number, 0, 1 or above, or {ESTIMATE!r}"
            )
        power = float(self.power)
        return loss_of_family(POWERS.get(power, f"tweedie({power!r})"), self.link).full_name

    @property
    def _estimates(self) -> bool:
        return isinstance(self.power, str) and self.power == ESTIMATE
