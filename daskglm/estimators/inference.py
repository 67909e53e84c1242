"""Standard errors, tests and intervals of fitted coefficients, with the names of statsmodels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.stats

from daskglm.core.arguments import check_choice, is_number, shown
from daskglm.core.requests import LossRef
from daskglm.estimators.inference_prediction import MeanModel, predict_mean
from daskglm.estimators.inference_table import Summary
from daskglm.estimators.row_numbers import leverages
from daskglm.fitting.inference import InferenceConfig, Inferred
from daskglm.fitting.likelihoods import fixed_dispersion
from daskglm.fitting.record import FitRecord
from daskglm.frames.design import Design
from daskglm.losses.base import Loss
from daskglm.losses.ordinal import is_ordinal, link_of_loss
from daskglm.losses.table import JOINT_LOSSES, loss_of

if TYPE_CHECKING:
    import pandas

PREDICTIONS = ("response", "link")
PSEUDO = ("cs", "mcf")
# Least eigenvalue of a correlation of hypotheses that are told apart.
REGULAR = 1e-10
# Squared standard errors of hypotheses by which one more Newton step may move them. Where scores of
# a column come from one cluster it is one, or more: they are what the fit is short of the optimum.
UNSURE = 0.5


class WaldTest(NamedTuple):
    r"""A Wald test of linear hypotheses.

    Parameters
    ----------
    statistic : float
        Chi^2, or F where t tests are compared with Student's distribution.
    pvalue : float
    df : int
        Number of hypotheses.
    df_denom : float, optional
        Degrees of freedom of F; None: the statistic is :math:`\chi^2`.
    """

    statistic: float
    pvalue: float
    df: int
    df_denom: float | None


@dataclass(frozen=True, eq=False)
class Inference:
    """Coefficients with their covariance: standard errors, tests, intervals, predictions.

    What `model.inference(X, y)` returns. Names are those of statsmodels' results; vectors are
    pandas Series by coefficient, of which the last is the "intercept", if there is one.

    Parameters
    ----------
    names : tuple of str
        Of the coefficients.
    ref : LossRef
        Name of the loss, and its parameters.
    config : InferenceConfig
        Which covariance this is.
    found : Inferred
        Numbers that were inferred.
    fit_intercept : bool
    record : FitRecord
        What was fitted.
    columns : tuple of str, optional
        Names of the features, if X had any.

    Examples
    --------
    >>> import daskglm
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [1.0, 3.0, 5.0, 8.0]
    >>> model = daskglm.Ridge(alpha=0).fit(X, y)
    >>> print(model.inference(X, y).bse.round(4).to_string())
    x0           0.1732
    intercept    0.3240
    """

    names: tuple[str, ...]
    ref: LossRef
    config: InferenceConfig
    found: Inferred
    fit_intercept: bool
    record: FitRecord
    columns: tuple[str, ...] | None = None
    design: Design | None = None

    @property
    def loss(self) -> Loss:
        """The loss that was fitted."""
        return loss_of(self.ref)

    # ---- numbers
    @property
    def params(self) -> pandas.Series:
        """Coefficients."""
        return self._series(self.found.params, "params")

    @property
    def bse(self) -> pandas.Series:
        """Standard errors."""
        return self._series(self._errors, "bse")

    @property
    def tvalues(self) -> pandas.Series:
        """Coefficients over their standard errors: z, or t where `use_t`."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self._series(self.found.params / self._errors, "tvalues")

    @property
    def pvalues(self) -> pandas.Series:
        """Two-sided p-values of the hypotheses that a coefficient is zero."""
        return self._series(2.0 * self._law.sf(np.abs(self.tvalues)), "pvalues")

    @property
    def use_t(self) -> bool:
        """Whether Student's distribution is used, with `df_inference`; else the normal one."""
        return self.found.use_t

    @property
    def scale(self) -> float:
        r"""The dispersion :math:`\phi`: the variance of a row is :math:`\phi V(\mu) / s`."""
        return self.found.dispersion

    dispersion = scale

    @property
    def nobs(self) -> float:
        """Rows whose weight is above zero, or the sum of the weights if they are frequencies."""
        return self.found.n

    @property
    def df_resid(self) -> float:
        """`nobs` less the coefficients; of penalised fits less the effective ones."""
        return self.found.df_resid

    @property
    def df_inference(self) -> float:
        """Degrees of freedom of t and F: `df_resid`, or clusters less one."""
        return self.found.df_inference

    @property
    def llf(self) -> float:
        """Log-likelihood with the family's dispersion, or else deviance / n; NaN: not known."""
        return self.found.llf

    @property
    def aic(self) -> float:
        """Akaike's information criterion by `llf`, so as weights are read; nan with a penalty."""
        return 2.0 * (self._parameters - self.llf)

    @property
    def bic(self) -> float:
        """Bayesian information criterion by `llf` and `nobs`; nan with a penalty."""
        return math.log(self.nobs) * self._parameters - 2.0 * self.llf

    @property
    def llnull(self) -> float:
        """Log-likelihood of the best constant with the offsets, as `llf` of a fit of it."""
        return self.found.null_llf

    @property
    def null_deviance(self) -> float:
        """Twice the least sum of losses that a constant has, with the offsets."""
        return self.found.null_deviance

    @property
    def deviance(self) -> float:
        """Twice the sum of the losses: the deviance of a family."""
        return self.found.deviance

    @property
    def pearson_chi2(self) -> float:
        r"""Sum of :math:`s (y - \mu)^2 / V(\mu)`."""
        return self.found.pearson_chi2

    @property
    def passes(self) -> float:
        """Rows that were read beyond loading, over the number of rows."""
        return self.found.passes

    def pseudo_rsquared(self, kind: str = "cs") -> float:
        """Return how much better the model is than a constant, by their log-likelihoods.

        Parameters
        ----------
        kind : {"cs", "mcf"}
            Cox & Snell's ``1 - exp(2 * (llnull - llf) / nobs)``, which of least squares is
            :math:`R^2`, or McFadden's ``1 - llf / llnull``, for classes and counts.

        Raises
        ------
        ValueError
            For losses whose log-likelihood is not known.
        """
        check_choice(kind, "kind", PSEUDO)
        if np.isnan(self.llf) or np.isnan(self.llnull):
            raise ValueError(
                f"loss={self.loss.full_name!r}: the log-likelihood of the model or of a constant "
                "is not known here, and pseudo R^2 compares them; the model's score is by deviances"
            )
        if kind == "mcf":
            return 1.0 - self.llf / self.llnull
        return -float(np.expm1(2.0 * (self.llnull - self.llf) / self.nobs))

    def cov_params(self) -> pandas.DataFrame:
        """Covariance matrix of the coefficients."""
        import pandas as pd

        return pd.DataFrame(self.found.cov, index=self.names, columns=self.names)

    def conf_int(self, level: float = 0.95) -> pandas.DataFrame:
        """Return confidence intervals, columns "lower" and "upper", of this level."""
        import pandas as pd

        reach = self.quantile(level) * self._errors
        bounds = {"lower": self.found.params - reach, "upper": self.found.params + reach}
        return pd.DataFrame(bounds, index=self.names)

    def quantile(self, level: float) -> float:
        """Return how many standard errors an interval of this level reaches to each side.

        Raises ValueError for a level that is not between 0 and 1.
        """
        if not is_number(level) or not 0.0 < level < 1.0:
            raise ValueError(f"level={shown(level)} must be between 0 and 1, such as 0.95")
        return float(self._law.ppf(0.5 + 0.5 * level))

    def to_frame(self, level: float = 0.95) -> pandas.DataFrame:
        """Return params, bse, tvalues, pvalues, lower and upper, a row for each coefficient.

        Of those that were left out, since their columns depend on others, all are nan.
        """
        import pandas as pd

        columns = [self.params, self.bse, self.tvalues, self.pvalues]
        found = pd.concat([*columns, self.conf_int(level)], axis=1)
        if self.design is None or not self.design.aliased:
            return found
        hidden = {name for factor in self.design.of_absorbed for name in factor.names}
        every = [name for name in self.design.all_names if name not in hidden]
        return found.reindex([*every, *self.names[int(self.design.reported.sum()) :]])

    # ---- tests
    def wald_test(self, R: Any, q: Any = None) -> WaldTest:
        """Test the hypotheses R params = q.

        Parameters
        ----------
        R : (m, p) or (p,) array, or name or sequence of names
            Hypotheses; names stand for coefficients that are q.
        q : (m,) array, default zeros

        Raises
        ------
        ValueError
            For unknown names, shapes that do not fit, hypotheses of which one follows from the
            others, more of them than the covariance has dimensions (clusters less one, rows), and
            combinations of them that the covariance knows no better than the fit.
        """
        matrix = self._hypotheses(R)
        m = len(matrix)
        if m > self.found.dimensions:
            raise ValueError(
                f"{m} hypotheses are more than the covariance has dimensions, "
                f"{self.found.dimensions} (clusters less one, or rows with weight, and no more "
                "than coefficients): test fewer at once"
            )
        values = np.zeros(m) if q is None else np.broadcast_to(np.asarray(q, float), (m,))
        apart = matrix @ self.found.params - values
        spread = matrix @ self.found.cov @ matrix.T
        if not _is_regular(spread):
            raise ValueError(
                f"the {m} hypotheses are not independent, or more than the covariance has "
                "dimensions: leave out those that follow from others"
            )
        step = matrix @ self.found.step
        if float(step @ np.linalg.solve(spread, step)) > UNSURE:
            raise ValueError(
                f"a Newton step moves a combination of the {m} hypotheses by as much as its "
                "standard error: the covariance has no information on it (a column of one cluster, "
                "or with 'HC0' and 'HC1' of one row), or the fit stopped early: test fewer at "
                "once, or fit again with a smaller tol"
            )
        statistic = float(apart @ np.linalg.solve(spread, apart))
        if not self.use_t:
            return WaldTest(statistic, float(scipy.stats.chi2.sf(statistic, m)), m, None)
        over = statistic / m
        pvalue = float(scipy.stats.f.sf(over, m, self.df_inference))
        return WaldTest(over, pvalue, m, self.df_inference)

    def _hypotheses(self, R: Any) -> np.ndarray:
        p = len(self.names)
        named = [R] if isinstance(R, str) else R
        if len(named) and all(isinstance(name, str) for name in named):
            if unknown := [name for name in named if name not in self.names]:
                raise ValueError(f"R names {unknown}, and the coefficients are {list(self.names)}")
            return np.eye(p)[[self.names.index(name) for name in named]]
        matrix = np.atleast_2d(np.asarray(R, dtype=float))
        if matrix.ndim != 2 or matrix.shape[1] != p or not np.isfinite(matrix).all():
            raise ValueError(
                f"R has shape {np.shape(R)}; it wants a finite number for each of the {p} "
                "coefficients in each row, the intercept last, or names of coefficients"
            )
        return matrix

    # ---- predictions
    def predict(
        self,
        X: Any,
        offset: Any = None,
        type: str = "response",
        level: float = 0.95,
        *,
        exposure: Any = None,
    ) -> Any:
        """Predict means with standard errors and confidence intervals.

        Intervals are those of the mean, not of new rows. Those of "response" are intervals of the
        margin, carried through the inverse link; their standard errors are by the delta method.

        Parameters
        ----------
        X : (n, d) array, sparse matrix, DataFrame, dask array or dataframe, or delayed blocks
        offset : (n,) array in a matching container, or name of a column, optional
            Added to the margins.
        type : {"response", "link"}
            Means (for two classes the probability of the second), or margins.
        level : float
        exposure : as offset, optional
            Its logarithm is added to the margins.

        Returns
        -------
        DataFrame with the columns mean, se, lower and upper; a dask dataframe of dask collections,
        a list of delayed frames of a list.

        Raises
        ------
        ValueError
            For data that do not fit the model, and "response" of a loss without a link.
        """
        check_choice(type, "type", PREDICTIONS)
        if self.loss.name in JOINT_LOSSES:
            raise ValueError(
                f"loss={self.loss.name!r}: there are no standard errors of probabilities of more "
                "than two classes; the model's predict_proba has the probabilities"
            )
        self._refuse_absorbed("standard errors of means")
        model = MeanModel(
            self.found.params,
            self.found.cov,
            self.loss,
            self.fit_intercept,
            self.columns,
            self.design,
        )
        reach = self.quantile(level)
        beside = offset, exposure
        return predict_mean(model, X, *beside, response=type == "response", reach=reach)

    def leverage(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        offset: Any = None,
        exposure: Any = None,
    ) -> Any:
        """Return the leverages of rows, the diagonal of the hat matrix.

        h = s f x' P x of a row of weight s, with the curvature f at its margin (expected, or the
        second derivative with `observed`), and the inverse P of the Hessian. Of the rows of the
        fit they add up to the number of coefficients, of penalised fits the effective one.

        Parameters
        ----------
        X, y, sample_weight, offset, exposure : as of `fit`

        Returns
        -------
        (n,) array; a lazy dask array or series of dask collections, a list of delayed arrays of
        a list.

        Raises
        ------
        ValueError
            For losses of all classes together, absorbed factors, and for what `fit` refuses.
        """
        if self.loss.name in JOINT_LOSSES:
            raise ValueError(f"loss={self.loss.name!r}: rows of several classes have no leverage")
        self._refuse_absorbed("leverages")
        return leverages(self, X, y, sample_weight, offset=offset, exposure=exposure)

    # ---- shown
    def summary(self, level: float = 0.95) -> Summary:
        """Return a table of the coefficients that prints as text and shows as HTML."""
        letter = "t" if self.use_t else "z"
        tail = 0.5 * (1.0 - level)
        ends = f"[{tail:.3g}", f"{1.0 - tail:.3g}]"
        header = ("coef", "std err", letter, f"P>|{letter}|", *ends)
        frame = self.to_frame(level)
        rows = [
            (str(name), [_short(b), _short(se), f"{t:.3f}", f"{p:.3f}", _short(low), _short(high)])
            for name, (b, se, t, p, low, high) in zip(frame.index, frame.to_numpy(), strict=True)
        ]
        return Summary(self._title(), self._facts(), header, rows, self._notes())

    def __repr__(self) -> str:
        return str(self.summary())

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def _title(self) -> str:
        link = f", link {self.loss.link.name}" if self.loss.link is not None else ""
        return f"Inference: loss {self.loss.full_name}{link}"

    def _facts(self) -> list[tuple[str, str]]:
        kind = self.config.covariance
        kind += f" ({self.found.clusters:,} clusters)" if self.found.clusters else ""
        kind += ", observed Hessian" if self.config.observed else ""
        given = self.config.dispersion
        fixed = fixed_dispersion(self.loss) is not None
        how = given if isinstance(given, str) else "given"
        how = how if given is not None else "fixed" if fixed else "pearson"
        return [
            ("rows", f"{self.nobs:,g}" + (" (frequencies)" if self._counts else "")),
            ("residual df", f"{self.df_resid:,.6g}"),
            ("covariance", kind),
            ("dispersion", f"{self.scale:.6g}" + f" ({'Pearson' if how == 'pearson' else how})"),
            ("deviance", f"{self.deviance:.6g}"),
            ("log-likelihood", f"{self.llf:.6g}"),
        ]

    def _notes(self) -> list[str]:
        notes = []
        if self.design is not None and self.design.absorbed:
            absorbed = [f"{f.name} ({len(f.slots):,} levels)" for f in self.design.of_absorbed]
            notes.append(f"Absorbed: {', '.join(absorbed)}.")
        if self.design is not None and self.design.bases:
            bases = [f"{name} {level}" for name, level in self.design.bases.items()]
            notes.append(f"Base levels, against which others are: {', '.join(bases)}.")
        if self.loss.family is not None and self.loss.family.name == "negative_binomial":
            notes.append(f"theta={self.loss.p1:g} is taken as known: its own error is not counted.")
        if self.loss.name == "multinomial":
            notes.append("Coefficients are log odds of a class against the class of reference.")
        if is_ordinal(self.loss):
            inverse = {"logit": "sigma", "probit": "Phi", "cloglog": "1 - exp(-exp"}
            of = inverse[link_of_loss(self.loss.name).name]
            ends = "(t - x.w)" + ")" * of.count("(")
            notes.append(f"Thresholds are the t of P(up to the lower class) = {of}{ends}.")
        if self.config.penalized is not None:
            notes.append(
                "The fit is penalised: intervals are around the penalised optimum, not the truth."
            )
        return notes

    def _refuse_absorbed(self, what: str) -> None:
        if self.design is not None and self.design.absorbed:
            raise ValueError(
                f"there are no {what} with absorbed factors ({', '.join(self.design.absorbed)}), "
                "whose effects are not inferred: fit them as other factors"
            )

    @property
    def _parameters(self) -> float:
        """How many parameters the likelihood has: coefficients, dispersion, that of the family."""
        if self.config.penalized is not None:
            return math.nan
        loss = self.loss
        found = self.record.estimated is not None and loss.parameter is not None
        return self.found.df_model + (fixed_dispersion(loss) is None) + found

    @property
    def _counts(self) -> bool:
        return self.config.weights == "frequency"

    @property
    def _errors(self) -> np.ndarray:
        return np.sqrt(np.diag(self.found.cov))

    @property
    def _law(self) -> Any:
        return scipy.stats.t(self.df_inference) if self.use_t else scipy.stats.norm

    def _series(self, values: Any, name: str) -> pandas.Series:
        import pandas as pd

        return pd.Series(np.asarray(values), index=list(self.names), name=name)


def names_of(columns: Sequence[str] | None, d: int, *, fit_intercept: bool) -> tuple[str, ...]:
    """Return names of the coefficients: of the features, or x0, x1 ...; the intercept last."""
    features = [f"x{j}" for j in range(d)] if columns is None else list(map(str, columns))
    return (*features, "intercept") if fit_intercept else tuple(features)


def _is_regular(spread: np.ndarray) -> bool:
    """Return whether a covariance of hypotheses can be inverted, whatever their scales."""
    diagonal = np.diag(spread)
    if not (diagonal > 0.0).all():
        return False
    least = np.linalg.eigvalsh(spread / np.sqrt(np.outer(diagonal, diagonal)))[0]
    return bool(least > REGULAR)


def _short(value: float) -> str:
    return f"{value:.4f}" if 1e-3 <= abs(value) < 1e6 or value == 0.0 else f"{value:.3e}"
