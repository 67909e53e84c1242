"""Likelihood ratio tests of nested fits."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import scipy.stats

from daskglm.estimators.fitted_record import record_of_fit
from daskglm.estimators.inference import Inference
from daskglm.fitting.likelihoods import fixed_dispersion, has_likelihood
from daskglm.fitting.record import FitRecord
from daskglm.losses.base import Loss

# Relative difference of deviances that may be rounding, or what two fits stopped short of.
SAME = 1e-8
# The same of deviances of the best constant alone, whose search ends sooner. Chosen.
SAME_NULL = 1e-6


class LikelihoodRatioTest(NamedTuple):
    r"""A likelihood ratio test.

    Parameters
    ----------
    statistic : float
        Difference of the deviances over the dispersion, or twice that of the log-likelihoods;
        :math:`\chi^2` where the smaller model is true.
    pvalue : float
    df : int
        How many coefficients more the larger model has.
    """

    statistic: float
    pvalue: float
    df: int


class _Fit(NamedTuple):
    """What is needed of a fit; columns are None where they have no names.

    `null` is the deviance of the best constant, nan where that was not looked for. `llf` is the
    largest log-likelihood, over the parameter of the family too where that is estimated.
    """

    loss: Loss
    deviance: float
    size: int
    rows: float
    record: FitRecord
    columns: tuple[str, ...] | None
    dispersion: float | None
    llf: float
    null: float = math.nan


def likelihood_ratio_test(m0: Any, m1: Any) -> LikelihoodRatioTest:
    """Test a model against a larger one that contains it, fitted to the same rows.

    The statistic is the difference of the deviances over the dispersion of the larger model, as in
    R's `anova(m0, m1, test="LRT")`. Where the family fixes the dispersion that is twice the
    difference of the log-likelihoods. So it is for models that both estimated the parameter of
    their family, each its own, as in R's `anova` of two fits by `glm.nb`.

    Parameters
    ----------
    m0, m1 : Inference, or fitted estimator
        The smaller model and the larger one, without penalties. Estimators do for families whose
        dispersion is fixed (Poisson, binomial, negative binomial, logistic regression), and where
        both estimated the power of Tweedie, they must be estimators.

    Returns
    -------
    LikelihoodRatioTest

    Raises
    ------
    ValueError
        For models of other losses, rows or features than the other's, penalised ones, estimators
        whose dispersion is not known, and where only one model estimated the parameter of its
        family.

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
    both_estimated = _same_family(small, large)
    _check_rows(small, large)
    if not small.size < large.size:
        raise ValueError(
            f"m0 has {small.size} coefficients and m1 {large.size}: m0 must be the smaller model"
        )
    if small.columns and large.columns and not set(small.columns) <= set(large.columns):
        missing = sorted(set(small.columns) - set(large.columns))
        raise ValueError(f"m1 lacks {missing} of m0's columns: m0 must be contained in m1")
    df = large.size - small.size
    if both_estimated:
        return _tested(_by_likelihoods(small, large), df)
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
    return _tested(max(less, 0.0) / large.dispersion, df)


def _tested(statistic: float, df: int) -> LikelihoodRatioTest:
    return LikelihoodRatioTest(statistic, float(scipy.stats.chi2.sf(statistic, df)), df)


def _same_family(small: _Fit, large: _Fit) -> bool:
    """Return whether both estimated the parameter of the same family.

    Raises ValueError for losses that differ otherwise.
    """
    estimated = small.record.estimated, large.record.estimated
    if estimated[0] is not None and estimated[0] == estimated[1]:
        return True
    names = {each.loss.name for each in (small, large)}
    if estimated != (None, None) and len(names) == 1:
        at = int(estimated[1] is not None)
        raise ValueError(
            f"m{at} estimated its {estimated[at]}, {(small, large)[at].loss.p1:.6g}, and m{1 - at} "
            f"was given {(small, large)[1 - at].loss.p1:.6g}, so their likelihoods differ by more "
            "than coefficients: estimate it in both models, or give both the same number"
        )
    if small.loss.ref != large.loss.ref:
        raise ValueError(
            f"m0 has the loss {small.loss.full_name!r} and m1 {large.loss.full_name!r}: "
            "likelihoods of different families have no ratio that tests one in the other"
        )
    return False


def _check_rows(small: _Fit, large: _Fit) -> None:
    """Raise ValueError for fits to other rows.

    They are known by their number, by their null deviances where these are of one loss, and by sums
    over them.
    """
    if small.rows != large.rows:
        raise ValueError(
            f"m0 was fitted to {small.rows:g} rows and m1 to {large.rows:g}: fit both to the same"
        )
    of_one_loss = small.loss.ref == large.loss.ref
    if of_one_loss and abs(small.null - large.null) > SAME_NULL * abs(large.null):
        raise ValueError(
            f"m0's null deviance is {small.null:.8g} and m1's {large.null:.8g}, so their rows, "
            "targets, weights or offsets differ: fit both to the same"
        )
    first, second = small.record.rows, large.record.rows
    if first is not None and second is not None and (what := first.difference(second)):
        raise ValueError(f"m0 and m1 were fitted to other rows: {what}. Fit both to the same")


def _by_likelihoods(small: _Fit, large: _Fit) -> float:
    """Return twice the difference of the log-likelihoods.

    Raises ValueError where one is not known, or the larger model has the smaller one.
    """
    for name, each in (("m0", small), ("m1", large)):
        if math.isnan(each.llf):
            raise ValueError(
                f"{name} estimated its {each.record.estimated}, and its largest log-likelihood is "
                "not known here: give the fitted model itself"
            )
    statistic = 2.0 * (large.llf - small.llf)
    if statistic < -SAME * max(abs(small.llf), 1.0):
        raise ValueError(
            f"m0's log-likelihood, {small.llf:.8g}, is above m1's, {large.llf:.8g}: m0 is not "
            "contained in m1, or m1 has not converged"
        )
    return max(statistic, 0.0)


def _fit(model: Any, name: str) -> _Fit:
    if isinstance(model, Inference):
        return _of_inference(model, name)
    if not hasattr(model, "report_"):
        raise TypeError(f"{name} is a {type(model).__name__}: give an Inference or a fitted model")
    record, report = record_of_fit(model), model.report_
    loss = record.of_loss
    if record.is_penalised:
        raise ValueError(_penalised(name))
    _check(loss, name)
    if report.parts and len(report.parts) > 1:
        raise ValueError(f"{name} has {len(report.parts)} problems; a test is of one")
    columns = getattr(model, "feature_names_in_", None)
    of_each = report.n_features + record.fit_intercept
    return _Fit(
        loss,
        2.0 * report.objective,
        # the odds of all classes but one
        of_each * (len(model.classes_) - 1 if loss.name == "multinomial" else 1),
        report.n_rows if record.rows is None else record.rows.used,
        record,
        None if columns is None else tuple(map(str, columns)),
        fixed_dispersion(loss),
        report.log_likelihood,
        report.null_deviance,
    )


def _of_inference(found: Inference, name: str) -> _Fit:
    if found.config.penalized is not None:
        raise ValueError(_penalised(name))
    _check(found.loss, name)
    record = found.record
    return _Fit(
        found.loss,
        found.deviance,
        len(found.names),
        found.nobs if record.rows is None else record.rows.used,
        record,
        found.columns,
        found.scale,
        # with an estimated dispersion it is not the largest
        found.llf if fixed_dispersion(found.loss) is not None else math.nan,
    )


def _check(loss: Loss, name: str) -> None:
    if not has_likelihood(loss):
        raise ValueError(
            f"{name}: loss={loss.full_name!r} has no likelihood here; there are those of families "
            "and of two classes"
        )


def _penalised(name: str) -> str:
    return f"{name} is penalised, so its deviance is not the least: fit without a penalty"
