"""Likelihood ratio tests of nested fits."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

from daskglm.estimators.infer import settings_of_fit
from daskglm.estimators.inference import Inference
from daskglm.fitting.inference import fixed_dispersion, has_likelihood
from daskglm.losses.base import Loss
from daskglm.losses.table import find

# Relative difference of deviances that may be rounding, or what two fits stopped short of.
SAME = 1e-8
# The same of deviances of the best constant alone, whose search ends sooner. Chosen.
SAME_NULL = 1e-6


class LikelihoodRatioTest(NamedTuple):
    """A likelihood ratio test.

    Parameters
    ----------
    statistic : float
        Difference of the deviances over the dispersion; chi^2 where the smaller model is true.
    pvalue : float
    df : int
        How many coefficients more the larger model has.
    """

    statistic: float
    pvalue: float
    df: int


class _Fit(NamedTuple):
    """What is needed of a fit; columns are None where they have no names.

    `null` is the deviance of the best constant, nan where that was not looked for.
    """

    loss: Loss
    deviance: float
    size: int
    rows: float
    columns: tuple[str, ...] | None
    dispersion: float | None
    null: float = math.nan


def likelihood_ratio_test(m0: Any, m1: Any) -> LikelihoodRatioTest:
    """Test a model against a larger one that contains it, fitted to the same rows.

    The statistic is the difference of the deviances over the dispersion of the larger model, as in
    R's `anova(m0, m1, test="LRT")`. Where the family fixes the dispersion that is twice the
    difference of the log-likelihoods.

    Parameters
    ----------
    m0, m1 : Inference, or fitted estimator
        The smaller model and the larger one, without penalties. Estimators do for families whose
        dispersion is fixed (Poisson, binomial, negative binomial, logistic regression).

    Returns
    -------
    LikelihoodRatioTest

    Raises
    ------
    ValueError
        For models of other losses, rows or features than the other's, penalised ones, and
        estimators whose dispersion is not known.

    Examples
    --------
    >>> import daskglm
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 0.0], [3.0, 1.0]] * 5, [0, 1, 0, 1, 1] * 4
    >>> large = daskglm.LogisticRegression(C=float("inf")).fit(X, y)
    >>> small = daskglm.LogisticRegression(C=float("inf")).fit([row[:1] for row in X], y)
    >>> daskglm.likelihood_ratio_test(small, large).df
    1
    """
    small, large = _fit(m0, "m0"), _fit(m1, "m1")
    if small.loss.ref != large.loss.ref:
        raise ValueError(
            f"m0 has the loss {small.loss.full_name!r} and m1 {large.loss.full_name!r}: "
            "likelihoods of different families have no ratio that tests one in the other"
        )
    if small.rows != large.rows:
        raise ValueError(
            f"m0 was fitted to {small.rows:g} rows and m1 to {large.rows:g}: fit both to the same"
        )
    if abs(small.null - large.null) > SAME_NULL * abs(large.null):
        raise ValueError(
            f"m0's null deviance is {small.null:.8g} and m1's {large.null:.8g}, so their rows, "
            "targets, weights or offsets differ: fit both to the same"
        )
    if not small.size < large.size:
        raise ValueError(
            f"m0 has {small.size} coefficients and m1 {large.size}: m0 must be the smaller model"
        )
    if small.columns and large.columns and not set(small.columns) <= set(large.columns):
        missing = sorted(set(small.columns) - set(large.columns))
        raise ValueError(f"m1 lacks {missing} of m0's columns: m0 must be contained in m1")
    less = small.deviance - large.deviance
    if less < -SAME * max(small.deviance, 1.0):
        raise ValueError(
            f"m0's deviance, {small.deviance:.8g}, is below m1's, {large.deviance:.8g}: m0 is not "
            "contained in m1, or m1 has not converged"
        )
    if large.dispersion is None:
        raise ValueError(
            f"the dispersion of loss={large.loss.full_name!r} is estimated from the rows: give "
            "model.inference(X, y) of both models"
        )
    df = large.size - small.size
    statistic = max(less, 0.0) / large.dispersion
    return LikelihoodRatioTest(statistic, float(scipy.stats.chi2.sf(statistic, df)), df)


def _fit(model: Any, name: str) -> _Fit:
    if isinstance(model, Inference):
        if model.config.penalized is not None:
            raise ValueError(_penalised(name))
        _check(model.loss, name)
        size, columns = len(model.names), model.columns
        return _Fit(model.loss, model.deviance, size, model.nobs, columns, model.scale)
    if not hasattr(model, "report_"):
        raise TypeError(f"{name} is a {type(model).__name__}: give an Inference or a fitted model")
    settings = settings_of_fit(model)
    loss, report = find(settings.loss), model.report_
    if np.isfinite(settings.C) or not settings.penalty.is_plain or hasattr(model, "C_"):
        raise ValueError(_penalised(name))
    _check(loss, name)
    if report.parts and len(report.parts) > 1:
        raise ValueError(f"{name} has {len(report.parts)} problems; a test is of one")
    columns = getattr(model, "feature_names_in_", None)
    return _Fit(
        loss,
        2.0 * report.objective,
        report.n_features + bool(settings.fit_intercept),
        report.n_rows,
        None if columns is None else tuple(map(str, columns)),
        fixed_dispersion(loss),
        report.null_deviance,
    )


def _check(loss: Loss, name: str) -> None:
    if not has_likelihood(loss):
        raise ValueError(
            f"{name}: loss={loss.full_name!r} has no likelihood here; there are those of families "
            "and of two classes"
        )


def _penalised(name: str) -> str:
    return f"{name} is penalised, so its deviance is not the least: fit without a penalty"
