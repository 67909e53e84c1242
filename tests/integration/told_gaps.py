"""Fits of all kinds as a covering array, and the truth that their gaps are held against.

The problem of a case is drawn from a seed and the name of the case, so it stays the same when others
come and go: `check(Case.named(name), seed)` draws and fits it again.
"""

import math
import warnings
import zlib
from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Any
from unittest import mock

import dask.array as da
import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.core.outcome import Reason
from daskglm.fitting.report import Report
from daskglm.losses.table import find
from daskglm.penalties.config import PenaltyConfig
from daskglm.solvers import costs
from tests.covering import pairwise
from tests.losses.formulas import BOUNDED, POSITIVE
from tests.objectives.families import LOCAL_NAMES
from tests.objectives.kinked import kinked_targets
from tests.oracle import ordinal, softmax
from tests.oracle.problem import Reference

CLASSIFIERS = ("logistic", "squared_hinge", "smoothed_hinge", "hinge")
CORNERS = ("hinge", "quantile(0.8)", "epsilon_insensitive")
LOSSES = (
    *(*CLASSIFIERS, "multinomial", "ordinal", "squared", "huber"),
    *("quantile(0.8)", "epsilon_insensitive", "squared_epsilon_insensitive"),
    *("binomial", "binomial_probit", "binomial_cloglog", "binomial_log", "binomial_identity"),
    *("poisson", "poisson_identity", "poisson_sqrt", "gamma", "gamma_inverse"),
    *("inverse_gaussian_squared", "tweedie(1.5)", "negative_binomial(0.5)"),
)
# no gap is told of these
UNPROVED = (
    *("gaussian_log", "gaussian_inverse", "gamma_identity", "inverse_gaussian"),
    *("inverse_gaussian_identity", "tweedie(2.5)", "tweedie_identity", "tweedie_power"),
    *("ordinal_probit", "ordinal_cloglog"),
)
SMOOTH = ("none", "ridge", "free feature", "matrix", "standardized")
KINKED = ("lasso", "elastic net", "free and lasso", "groups", "bounds", "bounds alone")
UNPENALISED = ("none", "bounds alone")
FREE = ("free feature", "free and lasso")
STOPS: dict[str, dict[str, Any]] = {
    "loose": {"tol": 1e-2},
    "usual": {"tol": 1e-6},
    "tight": {"tol": 1e-10},
    "early": {"max_iter": 3},
}
# Iterations at most, of which some solvers make cheap ones: else a few cases take most of the time.
MOST = {"gd": 60, "lbfgs": 60, "owlqn": 60, "tron": 40}
DEFAULT, AT_CORNERS = 25, 12
# Shares of the value at the start: what may be left where nothing is proved, and what is rounding.
NOTHING, ZERO = 1e-12, 1e-14
# How much more there may be than Newton's step foretells where nothing is proved.
ROUGHLY = 4.0
# How much coarser float64 is than long double; twice that.
COARSER = 2.0**12


@dataclass(frozen=True)
class Case:
    """A fit, by the names of what it is made of."""

    loss: str = "logistic"
    penalty: str = "ridge"
    solver: str = "auto"
    view: str = "one fit"
    rows: str = "plain"
    storage: str = "dense"
    weights: str = "no weights"
    offset: str = "no offset"
    intercept: str = "intercept"
    stop: str = "usual"
    hessians: str = "hessians"

    def __str__(self):
        return ", ".join(astuple(self))

    @classmethod
    def named(cls, name):
        """Return the case of this name."""
        return cls(*name.split(", "))

    @property
    def has_three_classes(self):
        """Whether targets are of three classes, which are fitted together or one by one."""
        together = self.loss == "multinomial" or self.loss.startswith("ordinal")
        return together or self.view == "one against the rest"

    @property
    def is_local(self):
        """Whether curvatures change at no bounded rate, so that Newton's step tells little far away."""
        return self.loss in LOCAL_NAMES

    @property
    def is_proved(self):
        """Whether a gap is told of every point that is good enough."""
        return not self.is_local and self.penalty not in (*FREE, *UNPENALISED)


CHOICES = {
    "loss": LOSSES,
    "penalty": (*SMOOTH, *KINKED),
    "solver": (
        *("auto", "newton", "tron", "lbfgs", "gd"),
        *("proximal_newton", "owlqn", "sdca", "proximal"),
    ),
    "view": ("one fit", "path", "one against the rest", "family"),
    "rows": ("plain", "near copies", "far", "unlike", "few"),
    "storage": ("dense", "float32", "columns first", "csr", "csr float32", "pattern", "blocks"),
    "weights": ("no weights", "weights", "some without weight"),
    "offset": ("no offset", "offset"),
    "intercept": ("intercept", "no intercept"),
    "stop": tuple(STOPS),
    "hessians": ("hessians", "no hessians"),
}


# ---- what is refused
def _solver_of_corners(loss, solver):
    return solver in ("auto", "sdca", "proximal") if loss in CORNERS else solver != "proximal"


def _solver_of_kinks(penalty, solver):
    taken = ("auto", "proximal_newton", "owlqn", "sdca", "proximal")
    return penalty in SMOOTH or (solver in taken and (penalty, solver) != ("groups", "owlqn"))


def _dual_of_loss(loss, solver):
    return solver != "sdca" or find(loss).has_dual


def _dual_of_penalty(penalty, solver):
    return solver != "sdca" or penalty in ("ridge", "elastic net")


def _penalty_of_hinge(loss, penalty):
    return loss != "hinge" or penalty not in (*UNPENALISED, *FREE)


def _free_at_corners(loss, penalty, hessians):
    free = penalty in (*FREE, "bounds alone")
    return loss not in CORNERS or hessians == "hessians" or not free


def _offset(loss, solver, offset):
    taken = loss != "hinge" and solver != "sdca"
    return offset == "no offset" or taken or find(loss).shifts


def _path(loss, view):
    return view != "path" or not loss.startswith("ordinal")


REFUSALS = (
    *(_solver_of_corners, _solver_of_kinks, _dual_of_loss, _dual_of_penalty),
    *(_penalty_of_hinge, _free_at_corners, _offset, _path),
)


# ---- what is no case, or depends on the rows
def _intercept(loss, intercept):
    return intercept == "intercept" or not (loss in BOUNDED or loss.startswith("ordinal"))


def _view(loss, view):
    taken = {"one against the rest": loss in CLASSIFIERS, "family": find(loss).family is not None}
    return taken.get(view, True)


def _pattern(rows, storage):
    return rows == "plain" or storage != "pattern"


CASES = [Case(**case) for case in pairwise(*REFUSALS, _intercept, _view, _pattern, **CHOICES)]


# ---- problems
@dataclass
class Drawn:
    """A problem: rows and targets, what goes with them, and the penalty."""

    X: Any
    y: np.ndarray
    C: float
    weight: np.ndarray | None
    offset: np.ndarray | None
    penalty: dict[str, Any]


def draw(case, seed):
    """Draw the problem of a case."""
    rng = np.random.default_rng([seed, zlib.crc32(str(case).encode())])
    dense = _rows(case, rng)
    y = _targets(case, rng, dense)
    weight = None if case.weights == "no weights" else rng.exponential(1.0, len(y))
    if case.weights == "some without weight":
        weight *= rng.random(len(y)) < 0.7
        weight[:3] += 0.1  # of each class
    offset = None if case.offset == "no offset" else _offsets(case, rng, y)
    penalty = _penalty(case, rng, 1.0 / dense.std(axis=0).clip(1e-6 * np.abs(dense).max()))
    C = math.inf if case.penalty in UNPENALISED else _strength(case, rng, dense, y, weight, offset)
    sparse = case.storage in ("csr", "csr float32", "pattern")
    return Drawn(sp.csr_matrix(dense) if sparse else dense, y, C, weight, offset, penalty)


def _rows(case, rng):
    X = rng.standard_normal((8, 9) if case.rows == "few" else (30, 5))
    if case.rows == "near copies":
        X[:, -1] = X[:, 0] + 10 ** rng.uniform(-5, -1) * X[:, -1]
    if case.rows == "far":
        X += 10 ** rng.uniform(1, 3) * rng.choice([-1, 1], X.shape[1])
    if case.rows == "unlike":
        X *= 10 ** rng.uniform(-4, 4, X.shape[1])
    if case.storage in ("csr", "csr float32"):
        X *= rng.random(X.shape) < 0.5
    if case.storage == "pattern":
        X = (X > 0.0) * 1.0
    return X.astype(np.float32 if "float32" in case.storage else np.float64)


def _targets(case, rng, X):
    if case.has_three_classes:
        z = kinked_targets(rng, "squared", X)
        y = np.digitize(z, np.quantile(z, [0.3, 0.6]))
        y[:3] = 0, 1, 2
        return y
    y = kinked_targets(rng, case.loss, X)
    y[0] += not y.any()  # counts of tiny means
    return 0.1 + np.abs(y) if case.loss in UNPROVED else y


def _offsets(case, rng, y):
    if case.loss == "multinomial":
        return rng.choice([0.3, 3.0]) * rng.standard_normal((len(y), int(y.max()) + 1))
    offset = rng.choice([0.3, 3.0]) * rng.standard_normal(len(y))
    if case.loss in POSITIVE:  # of the size of margins
        return 0.1 * offset * float(find(case.loss).link.of_mean(y.mean() or 1.0))
    return np.clip(0.05 * offset, -0.45, 0.45) if case.loss in BOUNDED else offset


def _penalty(case, rng, size):
    """Arguments of the penalty; `size` (d,) are sizes of coefficients that change margins by one."""
    d, name = len(size), case.penalty
    given: dict[str, Any] = {}
    if name in ("lasso", "elastic net", "free and lasso"):
        given["l1_ratio"] = 0.5 if name == "elastic net" else 1.0
    if name in FREE:
        given["penalty_factor"] = rng.exponential(1.0, d) * (np.arange(d) > 0)
    if name == "matrix":
        root = rng.standard_normal((d, d)) / np.sqrt(d)
        given["P2"] = (root @ root.T + (root @ root.T).T) / 2
    if name == "standardized":
        given["standardize"] = True
    if name == "groups":
        given |= {"groups": np.arange(d) // 2, "l1_ratio": float(rng.choice([0.5, 1.0]))}
    if name in ("bounds", "bounds alone"):
        lower = np.where(rng.random(d) < 0.6, -rng.exponential(0.2, d) * size, -np.inf)
        upper = np.where(rng.random(d) < 0.6, rng.exponential(0.2, d) * size, np.inf)
        lower[rng.random(d) < 0.3] = 0.0
        given |= {"lower_bounds": lower, "upper_bounds": upper}
    if name == "bounds alone":
        upper[0] = np.inf  # one feature at least is free
    if name == "bounds":
        left_out = np.where(np.arange(d) == d - 1, np.inf, 1.0)
        given |= {"l1_ratio": float(rng.choice([0.0, 0.5])), "penalty_factor": left_out}
    return given


def _strength(case, rng, X, y, weight, offset):
    """Draw a C at which some feature that is drawn is near leaving zero."""
    X, intercept = X.astype(np.float64), case.intercept == "intercept"
    s = np.ones(len(y)) if weight is None else weight
    slope = y - y.mean()
    if not (case.has_three_classes or case.loss in UNPROVED):
        probe = Reference(case.loss, X, y, 1.0, intercept, weight, offset)
        constant = probe.constant() if intercept else 1e-3
        slope = np.asarray(probe.losses(np.full(len(y), constant))[1], float)
    pull = np.abs((X - X.mean(axis=0) * intercept).T @ (s * slope))
    return float(10 ** rng.uniform(-0.5, 2.5) / (rng.choice(pull) or 1.0))


# ---- fits
def fit(case, drawn):
    """Return fitted models, and the C of each."""
    X, rows = _stored(case, drawn)
    how = {"max_iter": AT_CORNERS if case.loss in CORNERS else MOST.get(case.solver, DEFAULT)}
    how |= {**STOPS[case.stop], **drawn.penalty, **rows, "solver": case.solver}
    how |= {"fit_intercept": case.intercept == "intercept", "random_state": 0, "n_jobs": 1}
    C, loss = drawn.C, find(case.loss)
    # as if there were more features than a Hessian may have
    largest = 0 if case.hessians == "no hessians" else costs.LARGEST_HESSIAN
    with warnings.catch_warnings(), mock.patch.object(costs, "LARGEST_HESSIAN", largest):
        warnings.simplefilter("ignore", ConvergenceWarning)
        if case.view == "path":
            Cs = [1.0, C] if case.penalty == "none" else [C / 10, C]
            models = daskglm.fit(X, loss=case.loss, C=Cs, **how)
            return list(zip(models, Cs, strict=True))
        if case.view == "family":
            total = len(drawn.y) if drawn.weight is None else drawn.weight.sum()
            alpha = 1.0 / (C * total)
            family = case.loss.replace(loss.name, loss.family.name)
            model = daskglm.fit(X, family=family, link=loss.link.name, alpha=alpha, **how)
            return [(model, 1.0 / alpha / total if alpha else math.inf)]
        return [(daskglm.fit(X, loss=case.loss, C=C, **how), C)]


def _stored(case, drawn):
    """Return X as it is stored, and all that has a value for each row."""
    rows = {"y": drawn.y, "sample_weight": drawn.weight, "offset": drawn.offset}
    rows = {name: each for name, each in rows.items() if each is not None}
    if case.storage == "columns first":
        return np.asfortranarray(drawn.X), rows
    if case.storage != "blocks":
        return drawn.X, rows
    n, d = drawn.X.shape
    return da.from_array(drawn.X, chunks=(n // 3, d)), {
        name: da.from_array(each, chunks=n // 3) for name, each in rows.items()
    }


# ---- answers
@dataclass
class Answer:
    """A report, and what is true of its coefficients: the objective, its rounding, and the least one."""

    report: Report
    value: np.longdouble
    noise: np.longdouble
    least: Callable[[], np.longdouble]


def answers(case, drawn, model, C):
    """Return the answers of a model, by oracles that know the problem alone."""
    reports = model.report_.parts or (model.report_,)
    if case.loss == "ordinal":
        known = ordinal.Reference(drawn.X, drawn.y, C, drawn.weight, drawn.offset, **drawn.penalty)
        at = known.vector(model.coef_, model.thresholds_)
        return [_of_classes(reports[0], known, at)]
    intercept = case.intercept == "intercept"
    if case.loss == "multinomial":
        beside = drawn.weight, intercept, drawn.offset
        known = softmax.Reference(drawn.X, drawn.y, C, *beside, **drawn.penalty)
        W = np.column_stack([model.coef_, model.intercept_])[:, : known.width]
        return [_of_classes(reports[0], known, W)]
    beside = drawn.weight, drawn.offset, PenaltyConfig(**drawn.penalty)
    found = []
    for k, report in enumerate(reports):
        y = np.where(drawn.y == k, 1.0, -1.0) if case.has_three_classes else drawn.y
        w, b = np.atleast_2d(model.coef_)[k], float(np.resize(model.intercept_, len(reports))[k])
        known = Reference(case.loss, drawn.X, y, C, intercept, *beside)
        found.append(_of_margin(report, known, w, b))
    return found


def _of_classes(report, known, at):
    return Answer(report, known.value(at), known.noise(at), lambda: known.least(at)[1])


def _of_margin(report, known, w, b):
    return Answer(report, known.value(w, b), known.noise(w, b), lambda: known.least(w, b))


def check(case, seed):
    """Fit the problem of a case; no told gap may be below the truth."""
    drawn = draw(case, seed)
    models = fit(case, drawn)
    # a path begins where others end
    start = max(model.report_.history[0]["objective"] for model, _ in models)
    for model, C in models:
        what = f"DASKGLM_SEED={seed}, {case}:"
        assert (model.coef_ >= drawn.penalty.get("lower_bounds", -math.inf)).all(), what
        assert (model.coef_ <= drawn.penalty.get("upper_bounds", math.inf)).all(), what
        for answer in answers(case, drawn, model, C):
            _check_answer(case, answer, start, f"{what} {answer.report!r}")


def _check_answer(case, answer, start, what):
    report, value = answer.report, answer.value
    told, tol = report.relative_gap, STOPS[case.stop].get("tol", 1e-6)
    if not np.isfinite(value):
        # in float64 a margin is at an end of what the link takes, with more digits beyond
        assert not report.converged or report.reason == Reason.EDGE.value, what
        return
    rounding = COARSER * answer.noise + ZERO * start
    assert abs(report.objective - value) <= 1e-6 * value + rounding, what
    proved = math.isfinite(told)
    if proved:
        assert told <= tol or not report.converged, what
    elif case.is_local or not report.converged:
        return
    else:
        assert not case.is_proved, what
    if told == 0.0 and value <= rounding:
        return
    least = answer.least()
    foretold = ROUGHLY * (tol * least + NOTHING * start)
    most = told * (1 + 1e-6) * least if proved else foretold
    assert value - least <= most + answer.noise, (
        f"told {told:.3e}, true is {float((value - least) / least):.3e}: {what}"
    )
