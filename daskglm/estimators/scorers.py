"""Scores of rows held out: scikit-learn's scorers, fed with decision values, counts of predictions
or sums of losses.

Six scores of two classes are known from the sums of the sweep that solves. Others take one more
pass over the rows: scores of predicted classes need only their counts, other scorers of
scikit-learn the decision values of the rows held out, and plain functions of (estimator, X, y) the
rows themselves, so they want data in memory.
"""

from __future__ import annotations

import inspect
import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import check_scoring, get_scorer, get_scorer_names, make_scorer

from daskglm.core.decisions import predicted, probabilities, softmax_probabilities
from daskglm.core.warn import warn

DEFAULT = "accuracy"
AVERAGED = ("f1", "jaccard", "precision", "recall")
AVERAGES = ("", "_macro", "_micro", "_weighted")
COUNTED = {
    "accuracy",
    "balanced_accuracy",
    "matthews_corrcoef",
    *map("".join, itertools.product(AVERAGED, AVERAGES)),
}
"""Scorers of scikit-learn that depend on sums of row weights by true and predicted class only."""
LOG_LOSS = "neg_log_loss"


# ---- two classes, from the sweep's sums
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


SUMMED: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "accuracy": _accuracy,
    "balanced_accuracy": _balanced,
    LOG_LOSS: _log_loss,
    "f1": _f1,
    "precision": _precision,
    "recall": _recall,
}
"""From losses and counts of the rows held out (see `BatchEvaluation`) to scores, the higher the
better.
"""


# ---- any number of classes
class Decided(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose X are decision values, for scorers that call an estimator.

    Those of a `joint` one are the margins of a softmax.
    """

    def __init__(self, classes: np.ndarray, *, joint: bool = False) -> None:
        self.classes_ = classes
        self.joint = joint

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Return the decision values."""
        return X

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Labels."""
        labels: np.ndarray = self.classes_[predicted(X)]
        return labels

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Probabilities."""
        return softmax_probabilities(X) if self.joint else probabilities(X)


@dataclass(frozen=True)
class Scoring:
    """How rows held out are scored.

    Parameters
    ----------
    given : object
        What the user gave as `scoring`.
    name : str or None
        Of one of scikit-learn's scorers; None: a callable.
    scorer : callable
        (estimator, X, y, **params) to a number, the higher the better.
    joint : bool
        Whether decision values are the margins of a softmax.
    """

    given: Any
    name: str | None
    scorer: Any
    joint: bool = False

    @classmethod
    def of(cls, given: Any, estimator: Any) -> Scoring:
        """Check what a user gave as `scoring`.

        Raises
        ------
        ValueError
            For what is neither the name of a scorer, nor a callable, nor None.
        """
        # scikit-learn's name of its default
        if given is None or (isinstance(given, str) and given == "warn"):
            given = DEFAULT
        if isinstance(given, str):
            if given not in get_scorer_names():
                names = ", ".join(map(repr, [*SUMMED, "roc_auc", "neg_brier_score"]))
                raise ValueError(
                    f"scoring={given!r} is not one of {names} or another of "
                    "sklearn.metrics.get_scorer_names(); it can also be a function of (estimator, "
                    "X, y)"
                )
            return cls(given, given, get_scorer(given))
        if not callable(given):
            raise ValueError(
                f"scoring={given!r} must be the name of a scorer, a function of (estimator, X, y), "
                "or None"
            )
        try:
            return cls(given, None, check_scoring(estimator, scoring=given))
        except ValueError as error:
            raise ValueError(f"scoring={given!r}: {error}") from error

    def of_joint(self, joint: bool) -> Scoring:
        """Return the same for margins of a softmax, or for others."""
        return replace(self, joint=joint)

    @property
    def by_decisions(self) -> bool:
        """Whether decision values are enough: for scikit-learn's scorers and its `make_scorer`."""
        return hasattr(self.scorer, "_score_func")

    def check_weights(self) -> None:
        """Raise ValueError where the scorer takes no weights of rows, as it would have to."""
        function = self.scorer._score_func if self.by_decisions else self.scorer
        try:
            known = inspect.signature(function).parameters
        except ValueError:  # built in: it says so itself
            return
        if "sample_weight" not in known and all(
            p.kind is not p.VAR_KEYWORD for p in known.values()
        ):
            raise ValueError(
                f"scoring={self.given!r} takes no sample_weight, which fit was given: it could not "
                "weigh rows held out"
            )

    def check_offsets(self) -> None:
        """Raise ValueError where the scorer would predict rows without their offsets."""
        if not self.by_decisions:
            raise ValueError(
                f"scoring={self.given!r} is a function of rows, which are given to it without "
                "their offset: give the name of a scorer, or the result of "
                "sklearn.metrics.make_scorer"
            )

    def check_classes(self, classes: np.ndarray) -> None:
        """Raise ValueError if scikit-learn's scorer of this name cannot score such labels.

        It is tried on a few.
        """
        if self.name is None:
            return
        codes = np.repeat(np.arange(len(classes)), 2)
        values = np.eye(len(classes))[codes] - 0.5
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.score(classes, codes, values[:, 1] if len(classes) == 2 else values, None)

    def score(
        self, classes: np.ndarray, codes: np.ndarray, values: np.ndarray, weights: np.ndarray | None
    ) -> float:
        """Score rows by their decision values.

        Parameters
        ----------
        classes : (classes,) array
            Labels, in order.
        codes : (n,) array
            True classes as numbers.
        values : (n,) or (n, classes) array
        weights : (n,) array or None
        """
        more = {} if weights is None else {"sample_weight": weights}
        try:
            score = self._with_labels(classes)(
                Decided(classes, joint=self.joint), values, classes[codes], **more
            )
        except (ValueError, TypeError) as error:
            labels = f"{classes.tolist()}"
            raise ValueError(
                f"scoring={self.given!r} cannot score labels {labels:.200}: {error}"
            ) from error
        return number(score, self.given)

    def score_counts(self, classes: np.ndarray, counts: np.ndarray, weights: np.ndarray) -> float:
        """Score predicted classes by numbers of rows and sums of weights.

        Both are (classes, classes), true classes first.
        """
        true, chosen = np.nonzero(counts)
        scorer = self._with_labels(classes)
        more = {**scorer._kwargs, "sample_weight": weights[true, chosen]}
        return float(scorer._sign * scorer._score_func(classes[true], classes[chosen], **more))

    def _with_labels(self, classes: np.ndarray) -> Any:
        """Return the scorer with all classes as labels, if it takes them.

        Rows held out may lack some. As in scikit-learn.
        """
        known = inspect.signature(self.scorer._score_func).parameters
        if "labels" not in known:
            return self.scorer
        told: dict[str, Any] = {"labels": classes}
        if len(classes) == 2 and "pos_label" in known:
            told["pos_label"] = classes[-1]
        return make_scorer(
            self.scorer._score_func,
            greater_is_better=self.scorer._sign == 1,
            response_method=self.scorer._response_method,
            **{**told, **self.scorer._kwargs},
        )


def number(score: Any, scoring: Any) -> float:
    """Return a score as a float; raise ValueError for anything else."""
    if np.ndim(score) or not np.issubdtype(np.asarray(score).dtype, np.number):
        raise ValueError(f"scoring={scoring!r} gave {score!r:.80}, which is not a number")
    return float(score)


def defined(scores: np.ndarray, scoring: Any) -> np.ndarray:
    """Return a mask of the folds whose scores are all defined; the choice of C is made by these.

    Parameters
    ----------
    scores : (folds, values of C) array

    Raises
    ------
    ValueError
        If there is none.

    Warns
    -----
    UserWarning
        If a fold is left out.
    """
    kept: np.ndarray = ~np.isnan(scores).any(axis=1)
    if not kept.any():
        raise ValueError(
            f"scoring={scoring!r} is not defined (nan) in any fold: cv gives it no fold that it "
            "can score"
        )
    if not kept.all():
        warn(
            f"scoring={scoring!r} is not defined (nan) in {np.sum(~kept)} of {len(kept)} folds, "
            "which do not count in the choice of C"
        )
    return kept
