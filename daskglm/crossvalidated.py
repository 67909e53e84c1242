"""`LogisticRegressionCV`: the C that predicts best on rows held out, from all folds and values of C solved together."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from daskglm.engines import awaitable_on
from daskglm.family import Family, Solutions, opened, warn
from daskglm.inputs import is_lazy
from daskglm.joint import Columns
from daskglm.logistic import LogisticRegression
from daskglm.paths import values_of_C
from daskglm.settings import Settings
from daskglm.training import Trained


def _accuracy(losses: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return (counts[:, 0] + counts[:, 2]) / (counts[:, 1] + counts[:, 3])


def _log_loss(losses: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return -losses / (counts[:, 1] + counts[:, 3])


def _recall(losses: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return _share(counts[:, 0], counts[:, 1])


def _precision(losses: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return _share(counts[:, 0], counts[:, 0] + counts[:, 3] - counts[:, 2])


def _f1(losses: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return _share(2 * counts[:, 0], counts[:, 0] + counts[:, 1] + counts[:, 3] - counts[:, 2])


def _balanced(losses: np.ndarray, counts: np.ndarray) -> np.ndarray:
    sides = np.stack([_share(counts[:, 0], counts[:, 1]), _share(counts[:, 2], counts[:, 3])])
    there = counts[:, [1, 3]].T > 0
    return (sides * there).sum(axis=0) / there.sum(axis=0)


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), 0.0)


SCORINGS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "accuracy": _accuracy,
    "balanced_accuracy": _balanced,
    "neg_log_loss": _log_loss,
    "f1": _f1,
    "precision": _precision,
    "recall": _recall,
}
"""From losses and counts of the rows held out (see `joint.Found`) to scores, the higher the better."""


class LogisticRegressionCV(LogisticRegression):
    """Logistic regression with C chosen by cross-validation; all folds, classes and values of C share passes.

    Parameters
    ----------
    Cs : int or sequence of float, default 10
        Values of C; a number means so many from 1e-4 to 1e4, evenly in their logarithm.
    fit_intercept : bool, default True
        Whether to fit an intercept, which is never penalised.
    cv : int, scikit-learn splitter, iterable of (train, test), or None
        Folds, as in scikit-learn; None is 5, stratified. Dask collections take a number: their rows are dealt to folds
        at random (`random_state`), class by class within each partition.
    scoring : {"accuracy", "balanced_accuracy", "neg_log_loss", "f1", "precision", "recall"}, optional
        What is best on rows held out; default "accuracy". One-vs-rest problems are scored each by itself.
    refit : bool, default True
        Whether to fit the best C on all rows; else coefficients (and C) are the means of those best in each fold.
    class_weight : dict or "balanced", optional
        Factors of the rows' weights by label, in training; "balanced" by the labels of all rows.
    solver : {"auto", "newton", "tron", "lbfgs", "gd", "sdca"}, default "auto"
        "auto" and "newton" solve problems with few features together (up to 1,000, or 500 sparse ones); others are
        solved one after another on the same rows, each from the solution of the next smaller C.
    tol : float, default 1e-6
        Bound on relative suboptimality of every problem at which to stop.
    max_iter : int, optional
        Iterations of a problem at most; default: the solver's own.
    random_state : int, optional
        Seed of folds that are drawn, and of solvers that draw.

    Attributes
    ----------
    C_ : (1,) or (classes,) array
        Best C of each problem, one against the rest.
    Cs_ : (values,) array
    coef_, intercept_, classes_, n_features_in_, feature_names_in_
        As of `LogisticRegression`.
    scores_ : dict of label to (folds, values) array
        Scores on the rows held out; for two classes under the second label only.
    coefs_paths_ : dict of label to (folds, values, d or with intercept d + 1) array
    n_iter_ : (1 or classes, folds, values) array
    report_ : Report
        `parts` has the reports of all problems: classes, folds and values of C in this order, C fastest, then those
        fitted again on all rows.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> import daskglm
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = daskglm.LogisticRegressionCV(Cs=[0.01, 1.0]).fit(X, y)
    >>> model.scores_[1].shape
    (5, 2)
    """

    def __init__(
        self,
        *,
        Cs: Any = 10,
        fit_intercept: bool = True,
        cv: Any = None,
        scoring: str | None = None,
        refit: bool = True,
        class_weight: Any = None,
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.Cs = Cs
        self.fit_intercept = fit_intercept
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.class_weight = class_weight
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _fit(self, X: Any, y: Any, sample_weight: Any, *, start: Any = None, client: Any = None, **more: Any) -> Any:
        settings = self._settings(**more)
        settings.check()
        scoring = "accuracy" if self.scoring is None else self.scoring
        if not isinstance(scoring, str) or scoring not in SCORINGS:
            raise ValueError(f"scoring={scoring!r} is not one of {', '.join(map(repr, SCORINGS))}")
        Cs = values_of_C(np.logspace(-4, 4, self.Cs) if isinstance(self.Cs, (int, np.integer)) else self.Cs, "Cs")
        X, y, sample_weight, names = self._taken(X, y, sample_weight)
        work = partial(self._choose, X, y, settings, names, sample_weight, client, Cs, SCORINGS[scoring])
        return awaitable_on(client, is_lazy(X), work)

    def _choose(
        self,
        X: Any,
        y: Any,
        settings: Settings,
        names: Any,
        sample_weight: Any,
        client: Any,
        Cs: np.ndarray,
        score: Any,
    ) -> LogisticRegressionCV:
        began = time.perf_counter()
        cv = 5 if self.cv is None else self.cv
        with opened(X, y, settings, sample_weight=sample_weight, client=client, cv=cv) as family:
            solutions = family.solve(family.columns(Cs))
            shape = (len(family.problems), family.n_folds, len(Cs))
            scores = score(solutions.losses, solutions.counts).reshape(shape)
            paths = solutions.W.reshape(*shape, -1)
            best = scores.sum(axis=1).argmax(axis=1)
            reports = list(solutions.reports)
            if self.refit:
                means = np.array([path[:, k].mean(axis=0) for path, k in zip(paths, best, strict=True)])
                again = self._refit(family, Cs[best], means)
                reports += again.reports
                W, self.C_ = again.W, Cs[best]
            else:
                each = scores.argmax(axis=2)
                W = np.take_along_axis(paths, each[:, :, None, None], axis=2)[:, :, 0].mean(axis=1)
                self.C_ = Cs[each].mean(axis=1)
            report, classes = family.report(reports, began), family.classes
        warn(reports, float(settings.tol))
        assert classes is not None
        labels = classes[1:] if len(classes) == 2 else classes
        self.Cs_ = Cs
        self.scores_ = dict(zip(labels.tolist(), scores, strict=True))
        self.coefs_paths_ = dict(zip(labels.tolist(), paths, strict=True))
        d = report.n_features
        intercept = W[:, d] if settings.fit_intercept else np.zeros(len(W))
        self._adopt(Trained(W[:, :d], intercept, classes, report), names)
        n_iter = [part.n_iter for part in solutions.reports]
        self.n_iter_ = np.array(n_iter, dtype=np.int32).reshape(shape)
        return self

    def _refit(self, family: Family, C: np.ndarray, means: np.ndarray) -> Solutions:
        """Solve the problem of each class on all rows, from the mean of its folds."""
        everything = Columns(np.arange(len(C)), np.full(len(C), -1), C)
        return family.solve(everything, means)
