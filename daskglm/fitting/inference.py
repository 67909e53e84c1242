"""Statistical inference at fitted coefficients: one pass over the rows, then small matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from daskglm.core.arguments import check_choice, check_flag, is_number, shown
from daskglm.core.asking import Asking
from daskglm.core.inference_requests import InferenceSums, LeverageMeat, ScoresAlong
from daskglm.core.matrices import mirror_upper
from daskglm.core.requests import Problem, Totals
from daskglm.data.partitions import Partitions
from daskglm.fitting.config import FitConfig
from daskglm.fitting.covariance import (
    MOST_NAMES,
    Covariance,
    check_optimum,
    classical,
    clustered,
    covariance_of,
    inverse_of,
    sandwich,
)
from daskglm.fitting.likelihoods import LogLikelihoods, fixed_dispersion, has_likelihood
from daskglm.fitting.null_model import null_value
from daskglm.fitting.runner import objective_of
from daskglm.fitting.setup import loaded
from daskglm.losses.base import Loss
from daskglm.losses.table import JOINT_LOSSES, find
from daskglm.objectives.primal import Objective
from daskglm.solvers.linear_systems import projection

COVARIANCES = ("classical", "HC0", "HC1", "HC2", "HC3", "cluster")
# Powers of 1 - h, h the leverage, by which scores are divided.
BY_LEVERAGE = {"HC2": 0.5, "HC3": 1.0}
DISPERSIONS = ("pearson", "deviance")
WEIGHTS = ("precision", "frequency")
PENALIZED = ("effective",)
# Share of a column's sum of squares that absorbed levels leave, up to which they explain it: their
# effects are known to 1e-8. Chosen.
EXPLAINED = 1e-12
# Numbers of a matrix of a column for each coefficient that is reported, 3.2 GB. Chosen.
MOST_NUMBERS = 4e8


@dataclass(frozen=True)
class InferenceConfig:
    """What is to be inferred; see `LinearModel.inference` for the meaning of the fields."""

    covariance: str = "classical"
    weights: str = "precision"
    observed: bool = False
    penalized: str | None = None
    use_t: bool | None = None
    reference: Any = None
    dispersion: str | float | None = None

    def check(self, loss: Loss, settings: FitConfig, *, clusters: bool) -> None:
        """Raise ValueError for what cannot be inferred, before anything is loaded.

        `clusters` tells whether clusters were given.
        """
        check_choice(self.covariance, "covariance", COVARIANCES)
        check_choice(self.weights, "weights", WEIGHTS)
        if self.penalized is not None:
            check_choice(self.penalized, "penalized", PENALIZED)
        self._check_dispersion(loss)
        check_flag(self.observed, "observed")
        check_flag(self.use_t, "use_t", optional=True)
        if clusters != (self.covariance == "cluster"):
            said = "are given" if clusters else "are not given"
            raise ValueError(
                f"covariance={self.covariance!r}, but clusters {said}: give both covariance="
                "'cluster' and clusters, or none of them"
            )
        if self.reference is not None and loss.name != "multinomial":
            raise ValueError(
                f"reference={self.reference!r}: only fits of more than two classes together have a "
                "class of reference"
            )
        if loss.of_margins is not None and loss.module:
            raise ValueError(
                f"loss={loss.full_name!r} has no inference: of losses of all classes together it "
                "is there for 'multinomial' and for ordered classes"
            )
        if loss.name in JOINT_LOSSES and self.penalized is not None:
            raise ValueError(
                f"penalized={self.penalized!r}: for loss={loss.full_name!r} there is no covariance "
                "around a penalised optimum; fit without a penalty (C=inf)"
            )
        if loss.name in JOINT_LOSSES and self.covariance in BY_LEVERAGE:
            raise ValueError(
                f"covariance={self.covariance!r}: for loss={loss.full_name!r} rows have no "
                "leverage; give 'HC0' or 'HC1'"
            )
        if not loss.differentiable:
            raise ValueError(
                f"loss={loss.full_name!r} has corners, and so no Hessian to infer from: there are "
                "standard errors for smooth losses"
            )
        if self.covariance == "classical" and not has_likelihood(loss):
            raise ValueError(
                f"loss={loss.full_name!r} is of no family of distributions, so covariance="
                "'classical' has no meaning for it; give 'HC0', 'HC1' or 'cluster'"
            )
        if self.observed and not loss.convex:
            raise ValueError(
                f"observed=True: loss={loss.full_name!r} is not convex, and only its expected "
                "Hessian is known here; give observed=False"
            )
        if not settings.penalty.is_plain:
            raise ValueError(
                f"the fit has {_in_the_way(settings)}: with an L1 penalty, bounds of coefficients, "
                "or a penalty that differs among features there are no standard errors; fit "
                "without them"
            )
        if self.penalized is None and math.isfinite(settings.C):
            raise ValueError(
                f"the fit is penalised ({_strength(settings)}), which draws coefficients towards "
                "zero: "
                "their distribution is not centred at the true ones, and intervals and p-values "
                "would be wrong. Fit without a penalty (C=inf, alpha=0), or give "
                "penalized='effective' for the covariance around the penalised optimum"
            )

    def _check_dispersion(self, loss: Loss) -> None:
        """Raise ValueError for a dispersion that is none, or that the loss has not."""
        given = self.dispersion
        if given is None:
            return
        if isinstance(given, str) or not is_number(given):
            check_choice(given, "dispersion", DISPERSIONS)
        elif not 0.0 < given < math.inf:
            raise ValueError(f"dispersion={shown(given)} must be a number above 0")
        if loss.name in JOINT_LOSSES or not has_likelihood(loss):
            raise ValueError(
                f"dispersion={shown(given)}: loss={loss.full_name!r} is of no family with a "
                "dispersion; leave it out"
            )

    @property
    def curvature(self) -> str:
        """Kind of the Hessian, as `InferenceSums` has it."""
        return "observed" if self.observed else "fisher"


@dataclass(frozen=True, eq=False)
class Inferred:
    """Coefficients and their covariance, with what else is known of the fit.

    Parameters
    ----------
    params : (p,) array
        Coefficients; the intercept, if there is one, is last.
    cov : (p, p) array
    dispersion : float
    n : float
        Rows of weight above zero, or the sum of the weights if they are frequencies.
    df_model, df_resid : float
        Coefficients (of penalised fits effective ones), and n less that.
    df_inference : float
        Degrees of freedom of t: `df_resid`, or clusters less one.
    use_t : bool
        Whether t is compared with Student's distribution rather than the normal one.
    deviance : float
        Twice the sum of losses.
    pearson_chi2 : float
    llf : float
        Log-likelihood; NaN where none is known.
    clusters : int
        How many there are; 0: rows are taken to be independent.
    passes : float
        Rows read beyond loading, over the number of rows.
    null_deviance, null_llf : float
        Deviance and log-likelihood of the best constant, with the offsets; NaN where `llf` is.
    dimensions : int
        Rank that the covariance has at most: that of as many scores as it is made of.
    step : (p,) array
        Newton step from the coefficients, which is zero at an optimum.
    inverse : (p, p) array
        Inverse of the Hessian of the objective.
    problem : Problem
        What was fitted to the rows.
    """

    params: np.ndarray
    cov: np.ndarray
    dispersion: float
    n: float
    df_model: float
    df_resid: float
    df_inference: float
    use_t: bool
    deviance: float
    pearson_chi2: float
    llf: float
    clusters: int
    passes: float
    null_deviance: float
    null_llf: float
    dimensions: int
    step: np.ndarray
    inverse: np.ndarray
    problem: Problem


def infer(
    data: Partitions,
    settings: FitConfig,
    w: np.ndarray,
    config: InferenceConfig,
    names: Sequence[str],
    *,
    classes: np.ndarray | None = None,
    order: Sequence[int] = (),
    reported: np.ndarray | None = None,
    client: Any = None,
) -> Inferred:
    """Infer from the rows that coefficients w were fitted to. 1 pass beyond loading, 2 of HC2, HC3.

    Where a factor of thousands of levels is absorbed it is 2, and 3 but for the classical one.

    Parameters
    ----------
    data : Partitions
    settings : FitConfig
        That of the fit.
    w : (p,) array
    names : sequence of str
        Of all coefficients, for errors.
    classes : array, optional
        Those of the fit.
    order : sequence of int
        Of losses of all classes together: the places of the classes in the order of w; see
        `InferenceSums`.
    reported : (p,) array of bool, optional
        The coefficients that are inferred; others, of absorbed factors, count as such. Default:
        all.
    client : distributed.Client, optional
        Where to run; as of `fit`.

    Raises
    ------
    ValueError
        For data that the coefficients are no optimum of, singular Hessians, frequencies that are
        no whole numbers, and data that `fit` refuses.
    """
    loss = find(settings.loss)
    with loaded(data, replace(settings, device="cpu"), client) as on:
        if classes is not None and not np.array_equal(np.asarray(on.classes), classes):
            raise ValueError(
                f"y has the classes {_short(on.classes)}, but the model was fitted to "
                f"{_short(classes)}"
            )
        problem, sides = on.problems[0]
        sums: dict[str, Any] = {
            "meat": config.covariance in ("HC0", "HC1"),
            "frequency": config.weights == "frequency",
            "clusters": config.covariance == "cluster",
        }
        if loss.name in JOINT_LOSSES:
            known = sorted(label for label, _, _ in on.engine.facts.classes)
            problem = replace(problem, classes=tuple(known[k] for k in order))
        absorbed = None
        if reported is not None:
            objective = objective_of(on.engine, problem, sides, loss, settings)
            if objective.blocks:
                absorbed = _Absorbed(objective, reported, config)
                sums = {"bread": False}
        asking = Asking(partial(on.engine.total, problem))
        null = null_value(asking, on.engine.facts, loss, sides)
        llfs = LogLikelihoods(asking, loss, frequency=config.weights == "frequency")
        totals = asking(InferenceSums(w, config.curvature, **sums))
        n, value, null_at = _rows(totals, config), float(totals["value"]), null()
        likelihoods = [llfs.of(each, totals) for each in (value, null_at)]
        every = asking, w, config, names, totals, n
        if absorbed is not None:
            made = absorbed.made(*every)
        else:
            made = _of_all(_ridge(settings, sum(sides), len(w)), loss, *every)
            made = made if reported is None else made.of(reported)
        w = w if reported is None else w[reported]
        totals, found = made.totals, made.found
        check_optimum(w, made.step, np.sqrt(np.diag(made.matrix)), made.diagonal, made.names)
        llf, null_llf = (likelihood() for likelihood in likelihoods)
        passes = totals["rows"] / max(on.engine.facts.n_rows, 1)

    count = len(totals["clusters"].labels) if config.covariance == "cluster" else 0
    of_least_squares = loss.is_quadratic and config.covariance == "classical"
    return Inferred(
        params=w,
        cov=made.matrix,
        dispersion=found.dispersion,
        n=found.df_model + found.df_resid,
        df_model=found.df_model,
        df_resid=found.df_resid,
        df_inference=count - 1.0 if count else found.df_resid,
        use_t=of_least_squares if config.use_t is None else config.use_t,
        deviance=2.0 * value,
        pearson_chi2=float(totals["pearson"]),
        llf=llf,
        clusters=count,
        passes=float(passes),
        null_deviance=2.0 * null_at,
        null_llf=null_llf,
        dimensions=min(len(w), count - 1 if count else int(totals["used"])),
        step=made.step,
        inverse=made.inverse,
        problem=problem,
    )


@dataclass(frozen=True, eq=False)
class _Made:
    """A covariance of p coefficients, and what it is made of.

    `inverse` is that of the Hessian, `diagonal` the Hessian's, `n` the number of rows and `step`
    Newton's.
    """

    matrix: np.ndarray
    inverse: np.ndarray
    step: np.ndarray
    diagonal: np.ndarray
    names: Sequence[str]
    found: Covariance
    totals: Totals
    n: float

    def of(self, entries: np.ndarray) -> _Made:
        """Return the covariance of some of the coefficients, a mask."""
        both = np.ix_(entries, entries)
        return replace(
            self,
            matrix=self.matrix[both],
            inverse=self.inverse[both],
            step=self.step[entries],
            diagonal=self.diagonal[entries],
            names=[name for name, there in zip(self.names, entries, strict=True) if there],
        )


def _of_all(
    ridge: np.ndarray,
    loss: Loss,
    asking: Asking,
    w: np.ndarray,
    config: InferenceConfig,
    names: Sequence[str],
    totals: Totals,
    n: float,
) -> _Made:
    """Return the covariance of all coefficients, by the inverse of the whole Hessian."""
    mirror_upper(totals["bread"])
    found, inverse = _classical(totals, ridge, n, loss, config, names)
    if config.covariance in BY_LEVERAGE:
        power, kind = BY_LEVERAGE[config.covariance], config.curvature
        leveraged = LeverageMeat(w, inverse, power, kind, config.weights == "frequency")
        totals |= _leveraged(asking(leveraged), totals["rows"], config)
    matrix = _covariance(inverse, totals, n, found, config)
    step = inverse @ (totals["gradient"] + ridge * w)
    return _Made(matrix, inverse, step, totals["bread"].diagonal(), names, found, totals, n)


class _Absorbed:
    """What reads the covariance of the coefficients that are reported, without the whole Hessian.

    What absorbed levels take of the others is taken out of them (Frisch, Waugh & Lovell, with the
    weights of the optimum). Columns of the inverse are directions along which scores are summed.
    Raises ValueError, before rows are read, for what takes too much, and for leverages.
    """

    def __init__(self, objective: Objective, reported: np.ndarray, config: InferenceConfig) -> None:
        self.objective, self.reported = objective, reported
        if config.covariance in BY_LEVERAGE:
            raise ValueError(
                f"covariance={config.covariance!r}: rows of a factor of thousands of absorbed "
                "levels have no leverage here; give 'HC0', 'HC1' or 'cluster'"
            )
        numbers = float(len(reported)) * float(reported.sum())
        if numbers > MOST_NUMBERS:
            raise ValueError(
                f"{int(reported.sum()):,} of {len(reported):,} coefficients are reported: "
                f"inference takes {8e-9 * numbers:.3g} GB. Absorb larger factors"
            )

    def made(
        self,
        asking: Asking,
        w: np.ndarray,
        config: InferenceConfig,
        names: Sequence[str],
        totals: Totals,
        n: float,
    ) -> _Made:
        """Return the covariance, by `totals` without a bread, of n rows."""
        objective, loss = self.objective, self.objective.loss
        if config.observed:
            hessian: Any = objective.at(w, gram=True, exact=True, keep=False).known_hessian
        else:
            hessian = objective.expected_hessian(w)
        hessian, of_w = hessian.times(1.0 / objective.C), np.arange(len(w))
        entries, hidden = of_w[self.reported], of_w[~self.reported]
        told = [names[j] for j in entries.tolist()]
        weights, complement = _projected(hessian, entries, hidden)
        left, whole = complement.diagonal(), hessian.diagonal()[entries]
        if explained := [told[k] for k in np.flatnonzero(left <= EXPLAINED * whole)]:
            raise ValueError(
                f"{', '.join(map(repr, explained[:MOST_NAMES]))} depends on levels that are "
                "absorbed, and has no coefficient beside their effects. Drop it"
            )
        inverse = inverse_of(complement, told)
        directions = np.empty((len(w), len(entries)))
        directions[entries], directions[hidden] = inverse, -weights @ inverse
        step = directions.T @ totals["gradient"]
        spread, fixed = _spread(totals, loss, config)
        found = covariance_of(inverse, n, float(len(w)), spread, fixed)
        rows = 2.0 * totals["rows"]  # those of the sums and of the Hessian
        if config.covariance != "classical":
            frequency, clusters = config.weights == "frequency", config.covariance == "cluster"
            totals |= asking(ScoresAlong(w, directions, frequency, clusters))
            rows += totals["rows"]
        totals["rows"] = rows
        as_they_are = np.eye(len(entries))  # scores are along the inverse's columns already
        matrix = _covariance(as_they_are, totals, n, found, config)
        return _Made(matrix, inverse, step, whole, told, found, totals, n)


def _projected(
    hessian: Any, entries: np.ndarray, hidden: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return what hidden coefficients take of others, (f, r), and the Hessian of what is left.

    Errors of the former are squared in the latter, (r, r).
    """
    weights = projection(hessian, hidden, entries)
    residual = np.zeros((len(hessian), len(entries)))
    residual[entries], residual[hidden] = np.eye(len(entries)), -weights
    left = residual.T @ (hessian @ residual)
    return weights, 0.5 * (left + left.T)


def _rows(totals: Totals, config: InferenceConfig) -> float:
    """Return the number of rows; ValueError for frequencies that are no whole numbers."""
    if config.weights == "frequency":
        _check_whole(int(totals["fractions"]))
    return float(totals["weight"] if config.weights == "frequency" else totals["used"])


def _strength(settings: FitConfig) -> str:
    """Return the strength of the penalty as it was given."""
    C = float(settings.C)
    return f"alpha={1.0 / C:g}" if settings.average else f"C={C:g}"


def _in_the_way(settings: FitConfig) -> str:
    """Return the parameters of a penalty that is not plain, with their values."""
    penalty = settings.penalty
    names = ["l1_ratio"] * (penalty.l1_ratio != 0.0) + list(penalty.of_features)
    names += [n for n in ("lower_bounds", "upper_bounds") if getattr(penalty, n) is not None]
    return ", ".join(f"{name}={shown(getattr(penalty, name))}" for name in names)


def _ridge(settings: FitConfig, total: float, size: int) -> np.ndarray:
    """Return the strength of the penalty on each coefficient, where losses have weight one."""
    C = settings.weight_of_losses(total)
    ridge = np.full(size, 1.0 / C if math.isfinite(C) else 0.0)
    if settings.fit_intercept:
        ridge[-1] = 0.0
    return ridge


def _covariance(
    inverse: np.ndarray,
    totals: Totals,
    n: float,
    found: Covariance,
    config: InferenceConfig,
) -> np.ndarray:
    """Return the covariance that is asked for, beside the classical one that is `found`."""
    if config.covariance == "cluster":
        return clustered(inverse, totals["clusters"].sums, n, found.df_model)
    if config.covariance != "classical":
        mirror_upper(totals["meat"])
        return sandwich(inverse, totals["meat"], config.covariance, n, found.df_model)
    if math.isnan(found.dispersion):
        raise ValueError(
            f"{n:g} rows and {found.df_model:g} coefficients leave nothing to estimate the "
            "dispersion from: give more rows than coefficients, or dispersion= a number"
        )
    return found.matrix


def _classical(
    totals: Totals,
    ridge: np.ndarray,
    n: float,
    loss: Loss,
    config: InferenceConfig,
    names: Sequence[str],
) -> tuple[Covariance, np.ndarray]:
    """Return the classical covariance and the inverse Hessian of the objective."""
    spread, fixed = _spread(totals, loss, config)
    inverse, found = classical(totals["bread"], ridge, n, spread, fixed, names)
    return found, inverse


def _spread(totals: Totals, loss: Loss, config: InferenceConfig) -> tuple[float, float | None]:
    """Return what the dispersion is estimated from, and the dispersion if it is fixed."""
    given = config.dispersion
    fixed = fixed_dispersion(loss) if given is None or isinstance(given, str) else float(given)
    spread = 2.0 * float(totals["value"]) if given == "deviance" else float(totals["pearson"])
    return spread, None if isinstance(given, str) else fixed


def _check_whole(fractions: int) -> None:
    """Raise ValueError for weights that cannot be numbers of rows."""
    if fractions:
        raise ValueError(
            f"weights='frequency' takes a weight for a number of equal rows, and {fractions} of "
            "them are no whole numbers (class weights multiply them); give weights='precision'"
        )


def _leveraged(reply: Totals, rows: float, config: InferenceConfig) -> Totals:
    """Return the meat with leverages, and the rows read in both passes.

    Raises ValueError for rows that the fit follows wherever their targets are.
    """
    if full := int(reply["full"]):
        raise ValueError(
            f"covariance={config.covariance!r} divides by 1 - h, and {full} row(s) have the "
            "leverage h = 1: a coefficient is theirs alone, and their residuals say nothing. Drop "
            "such columns and rows, or give 'HC0' or 'HC1'"
        )
    return {"meat": reply["meat"], "rows": rows + reply["rows"]}


def _short(classes: Any) -> list[Any]:
    return np.asarray(classes).tolist()[:8]
