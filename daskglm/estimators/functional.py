"""`daskglm.fit`: one call from data to a fitted estimator, wherever the data are."""

from __future__ import annotations

from typing import Any

from daskglm.core.arguments import is_sequence, starting_point, starting_points
from daskglm.data.array_api import parameter
from daskglm.estimators import choices
from daskglm.estimators.any_loss import LinearClassifier, LinearRegressor
from daskglm.estimators.families import GeneralizedLinearRegressor
from daskglm.estimators.fit_path import fit_path
from daskglm.estimators.logistic import LogisticRegression
from daskglm.estimators.ordinal import OrdinalRegression
from daskglm.estimators.ridge import Ridge
from daskglm.estimators.svm import LinearSVC
from daskglm.fitting.driver import Callback
from daskglm.losses.ordinal import is_ordinal, link_of_loss, loss_of_link
from daskglm.losses.table import find

_CLASSES: dict[str, Any] = {
    cls.__name__: cls for cls in (LogisticRegression, LinearSVC, Ridge, OrdinalRegression)
}
ESTIMATORS = {loss: _CLASSES[name] for loss, name in choices.ESTIMATORS.items()}
# How the losses of `LogisticRegression` fit more than two classes.
MULTI_CLASS = {"logistic": "ovr", "multinomial": "multinomial"}


def fit(
    X: Any,
    y: Any,
    *,
    loss: str = "logistic",
    family: str | None = None,
    link: str = "auto",
    C: Any = 1.0,
    alpha: Any = None,
    solver: str = "auto",
    fit_intercept: bool = True,
    tol: float = 1e-6,
    stop: str = "gap",
    max_iter: int | None = None,
    sample_weight: Any = None,
    offset: Any = None,
    exposure: Any = None,
    class_weight: Any = None,
    warm_start: Any = None,
    client: Any = None,
    callback: Callback | None = None,
    progress: bool | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
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
    checkpoint: Any = None,
    checkpoint_every: int | str = "60s",
    resume: Any = None,
    out_of_core: bool = False,
) -> Any:
    r"""Fit a linear model with any loss, family, penalty and solver.

    Minimises :math:`\frac12 |w|^2 + C \sum_i s_i \, \mathrm{loss}(y_i, x_i \cdot w + b)` over w and
    b. With an `l1_ratio` of r the penalty is :math:`r |w|_1 + \frac{1 - r}{2} |w|^2` instead;
    docs/penalties.md has the formulas of all others.

    Parameters
    ----------
    X : (n, d) NumPy array, SciPy sparse matrix, pandas DataFrame, dask array or dataframe, or list
    of delayed blocks
        CuPy arrays and CSR matrices and cuDF frames, in memory or as dask chunks, are computed on
        their GPU. float32 stays float32 in memory; results are float64. Dask chunks may be dense or
        CSR. docs/data.md has all containers that are taken.
    y : (n,) matching container, or the name of a column of X
        Labels of any two or more values, numbers for "squared".
    loss : str, default "logistic"
        "logistic", "multinomial", "squared_hinge", "hinge", "smoothed_hinge", "squared", "ordinal"
        or another of `daskglm.losses.table`, some with a parameter in parentheses, as in
        "quantile(0.9)": docs/solvers.md has their formulas. Or one that `daskglm.register_loss` has
        made known. More than two classes are fitted one against the rest, but by "multinomial"
        together. "ordinal" are proportional odds of ordered classes, see `OrdinalRegression`, whose
        other links are "ordinal_probit" and "ordinal_cloglog".
    family : str, optional
        Instead of a loss: a family of distributions, as of `GeneralizedLinearRegressor`, whose
        scale is another: the mean of half the unit deviances plus :math:`\frac{\alpha}{2} |w|^2`.
        "ordinal" is the loss of that name, and takes C.
    link : str, default "auto"
        Link of the family; of "ordinal" it is that of `OrdinalRegression`.
    alpha : float or sequence of float, default 1.0
        Strength of the penalty of a family; 0: none. A sequence asks for a path: a model for each
        value, on rows that are loaded once, each from the solution of the next larger one.
    C : float or sequence of float, default 1.0
        Weight of the losses; infinity: no penalty. A sequence asks for a path: a model for each
        value, which share passes where features are few (see `LogisticRegressionCV`).
    solver : str, default "auto"
        "newton", "tron", "lbfgs", "gd", "sdca", "proximal", "proximal_newton" or "owlqn"; all reach
        the same answer. docs/solvers.md says which takes which loss and penalty, and at what cost.
        Names of scikit-learn's and dask-ml's solvers are taken for the nearest of these, and the
        report says so.
    fit_intercept : bool, default True
        Whether to fit an intercept; it is not penalised.
    tol : float, default 1e-6
        Stop when relative suboptimality is proved to be at most this; where nothing is proved
        (`report_` says so), when Newton's step would lower the value by at most this share of it.
    stop : {"gap", "coefficients"}, default "gap"
        What `tol` bounds: relative suboptimality, or :math:`|w - w^*| / |w|`, the relative
        error of the features' coefficients (see docs/scikit-learn.md), which wants a penalty.
    max_iter : int, optional
        Iterations at most, 0 for the solver's first point; default by solver.
    sample_weight : (n,) matching container, or the name of a column of X, optional
        Non-negative factors of the rows' losses.
    offset : (n,) matching container, or the name of a column of X, optional; of multinomial fits
        (n, K), a column for each class in the order of `classes_`
        Added to the margins.
    exposure : (n,) matching container, or the name of a column of X, optional
        Positive factors of the means; with a log link only.
    class_weight : dict or "balanced", optional
        Factors by label; labels that y lacks are ignored.
    warm_start : fitted estimator or (coef, intercept), optional
        Where to start. For a sequence of C also a list of fitted estimators, one for each.
    client : distributed.Client, optional
        Where to run. Default: the current client for dask collections, else this process, on
        threads.
    callback : callable, optional
        Called after each iteration with its record, a dict; a true answer ends the fit. Problems
        that are solved together (see `C`) have one record: the sum of their objectives, the largest
        of their gaps.
    progress : bool, optional
        True shows a progress bar, False none; default: on long fits in a terminal or notebook.
    random_state : int, optional
        Seed of the order in which "sdca" visits rows; None: from NumPy's global state.
    n_jobs : int, optional
        Threads of a fit in this process; None and -1: all processors. Workers of a cluster have
        threads of their own.
    verbose : int, default 0
        Above 0 shows progress, as `progress=True` does.
    solver_options : dict, optional
        Further arguments of the solver: `step` and `epsilon` of "gd"; those of
        `daskglm.solvers.sdca.sdca`.
    device : {"cuda", "cpu"}, optional
        Where to compute: "cuda" moves host rows once to the GPU of the process or worker they are
        in, "cpu" takes rows off it. Default: where the rows are.
    device_memory_limit : int or str, optional
        Bytes, such as "8GB", that a fit may take on a GPU; rows beyond it are streamed from host
        memory at every pass. Default: nine tenths of what is free.
    l1_ratio : float, default 0.0
        Share of the L1 penalty, from 0 to 1.
    penalty_factor : (d,) array, or dict of feature name to number, optional
        Factors of both parts of the penalty, not below 0; 0: the feature is not penalised, inf: it
        is left out, with a coefficient of 0. Features that a dict lacks have 1.
    P2 : (d, d) array or sparse matrix, optional
        The L2 part is :math:`\frac{1 - r}{2} w' P_2 w`; symmetric and positive semi-definite.
        `penalty_factor` is that of the L1 part alone then.
    lower_bounds, upper_bounds : float, (d,) array, or dict of feature name to number, optional
        Bounds of coefficients, which may be infinite. Features that a dict lacks have none.
    positive : bool, default False
        Whether no coefficient may be negative: lower_bounds=0.
    groups : (d,) array of labels, list of lists of feature numbers or names, or "factors", optional
        Group lasso: the L1 part is :math:`r \sum_G \sqrt{d_G} \, |w_G|`, with the size of a group.
        Features that no list has are groups of their own. Wants l1_ratio above 0, and no bounds.
    standardize : bool, default False
        Whether the penalty is that of coefficients of columns with standard deviation 1. The data
        stay as they are, and so does the scale of `coef_` and of bounds.
    checkpoint : path or fsspec URL, optional
        Folder to keep the state of the solve in, replaced as it goes on and left there at the end.
        On a cluster with "sdca" all workers must see it. Cost: 1 pass more, to tell the data from
        others.
    checkpoint_every : int or str, default "60s"
        Iterations, or time, between two states.
    resume : path or fsspec URL, optional
        A checkpoint of these data to go on from, perhaps on other workers. "sdca" wants dask data
        in the same partitions.
    out_of_core : bool, default False
        Read dask collections and delayed blocks from their source at every pass, instead of keeping
        them in memory.

    Returns
    -------
    LogisticRegression, LinearSVC, Ridge or OrdinalRegression; LinearClassifier or LinearRegressor
    for other losses; GeneralizedLinearRegressor for families
        Fitted; `report_` tells how good the answer is. A list of them for a sequence, whose
        reports count the passes, rounds and seconds of all together. An awaitable where the client
        is asynchronous.

    Raises
    ------
    ValueError
        For arguments out of range (before any work is scheduled) and for bad data, with their
        place.
    TypeError
        For a callback, client, warm_start, path or solver_options of a wrong kind, before any work.
    RuntimeError
        For `device="cuda"` without CuPy, driver or device, and for clusters where only some workers
        have one.
    MemoryError
        Where the data are larger than the memory of the workers, or of this machine, together.
    ClusterLost, DataLost
        Where the scheduler is gone, or rows that cannot be read again (RuntimeErrors of
        `daskglm.engines.cluster`).

    Warns
    -----
    ConvergenceWarning
        Where `tol` was not reached, with the precision that was.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> import daskglm
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> daskglm.fit(X, y, C=0.1).report_.converged
    True
    """
    C, alpha = parameter(C), parameter(alpha)
    other_loss = loss != "logistic"
    if family == "ordinal" and not other_loss:  # whose scale is that of classifiers
        family, loss = None, loss_of_link("logit" if link == "auto" else link).name
        link = "auto"
    if family is not None and (other_loss or is_sequence(C) or C != 1.0):
        raise ValueError(
            f"family={family!r} with {'loss' if other_loss else 'C'}: a family has its own "
            "loss, and alpha for the strength of its penalty"
        )
    if family is None and (alpha is not None or link != "auto"):
        raise ValueError(
            f"{'alpha' if alpha is not None else 'link'} is given without a family; losses take C"
        )
    find(loss)
    path = {name: given for name, given in (("C", C), ("alpha", alpha)) if is_sequence(given)}
    params: dict[str, Any] = {
        "C": 1.0 if "C" in path else C,
        "solver": solver,
        "fit_intercept": fit_intercept,
        "tol": tol,
        "stop": stop,
        "max_iter": max_iter,
        "progress": progress,
        "random_state": random_state,
        "n_jobs": n_jobs,
        "verbose": verbose,
        "solver_options": solver_options,
        "device": device,
        "device_memory_limit": device_memory_limit,
        "l1_ratio": l1_ratio,
        "penalty_factor": penalty_factor,
        "P2": P2,
        "lower_bounds": lower_bounds,
        "upper_bounds": upper_bounds,
        "positive": positive,
        "groups": groups,
        "standardize": standardize,
        "schema": schema,
    }
    if family is None:
        model = _estimator(loss, class_weight, params)
    else:
        if class_weight is not None:
            raise ValueError(f"class_weight has no meaning for family={family!r}")
        strength = 1.0 if alpha is None or "alpha" in path else alpha
        params |= {"family": family, "link": link, "alpha": strength}
        model = GeneralizedLinearRegressor(**{k: v for k, v in params.items() if k != "C"})
    more = {
        "client": client,
        "callback": callback,
        "out_of_core": out_of_core,
        "checkpoint": checkpoint,
        "checkpoint_every": checkpoint_every,
        "resume": resume,
    }
    beside = {"offset": offset, "exposure": exposure}
    if path:
        if getattr(model, "_estimates", False):
            raise ValueError(
                f"family={family!r} with a sequence of alpha: the parameter is estimated for one "
                "alpha at a time"
            )
        if is_ordinal(find(loss)):
            raise ValueError(
                f"a sequence of C is not implemented for loss={loss!r}; fit each by itself"
            )
        start = starting_points(warm_start)
        more |= {"sample_weight": sample_weight, "start": start, **beside}
        return fit_path(model, X, y, path, **more)
    at = starting_point(warm_start)
    return model._fit(X, y, sample_weight, start=at, **beside, **more)


def _estimator(loss: str, class_weight: Any, params: dict[str, Any]) -> Any:
    """Make the estimator of a loss, with these parameters."""
    classifies = find(loss).classifies
    of_others = LinearClassifier if classifies else LinearRegressor
    if is_ordinal(find(loss)):
        model: Any = OrdinalRegression(link=link_of_loss(loss).name, **_ordinal(params))
    else:
        model = ESTIMATORS.get(loss, of_others)(**params)
    if isinstance(model, LogisticRegression):
        model.multi_class = MULTI_CLASS[loss]
    if classifies:
        model.class_weight = class_weight
    elif class_weight is not None:
        raise ValueError(f"class_weight has no meaning for loss={loss!r}, which has no classes")
    if "loss" in model._parameters:
        model.loss = loss
    return model


def _ordinal(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that `OrdinalRegression` has; raise ValueError where others are set."""
    if not params["fit_intercept"]:
        raise ValueError(
            "fit_intercept=False has no meaning for loss='ordinal', whose thresholds are always "
            "fitted"
        )
    return {name: value for name, value in params.items() if name != "fit_intercept"}
