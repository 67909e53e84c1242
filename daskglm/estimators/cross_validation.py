"""`LogisticRegressionCV`: the C, and the l1_ratio if there are several, that predict best on rows
held out; with L2 penalties from all folds and values of C solved together.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import sklearn
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping, process_routing

from daskglm.core.arguments import check_choice, check_flag, is_whole, shown
from daskglm.data.containers import Named
from daskglm.data.partitions import is_lazy, partitions
from daskglm.estimators.fit_path import grid_of_C
from daskglm.estimators.fitted_data import Known, check_added, with_columns_of_fit
from daskglm.estimators.logistic import LogisticRegression
from daskglm.estimators.penalty_parameters import l1_ratios_of
from daskglm.estimators.regularization_path import check_relax, check_share
from daskglm.estimators.scorers import DEFAULT, Decided, Scoring, defined, number
from daskglm.estimators.tables import design_of_model, encoded
from daskglm.estimators.validation import scores_of, wants_rows
from daskglm.fitting.config import FitConfig
from daskglm.fitting.cv_splits import check_splits
from daskglm.fitting.driver import Callback
from daskglm.fitting.grid_checkpoint import checkpoints_of_mixes
from daskglm.fitting.held_out import SELECTIONS, selected
from daskglm.fitting.joint_grid import JointGrid, each_once
from daskglm.fitting.open_grid import open_grid, warn_unsolved
from daskglm.fitting.penalty_path import PathProblem
from daskglm.fitting.problem_grid import ProblemGrid, Solutions
from daskglm.fitting.record import record_of
from daskglm.fitting.runner import Trained
from daskglm.objectives.batched import ProblemBatch


@dataclass(frozen=True)
class SearchConfig:
    """Values of C and of l1_ratio, folds, scores, and the arguments of splitter and scorer."""

    Cs: np.ndarray
    ratios: list[float]
    cv: Any
    scoring: Scoring
    split_params: Mapping[str, Any]
    score_params: Mapping[str, Any]


@dataclass(frozen=True)
class Tried:
    """Results of all folds, values of C and l1_ratios.

    Coefficients (problems, folds, values, ratios, size), scores and iterations (folds, values,
    ratios).
    """

    paths: np.ndarray
    scores: np.ndarray
    n_iter: np.ndarray


class LogisticRegressionCV(LogisticRegression):
    """Logistic regression with C, and l1_ratio if there are several, chosen by cross-validation.

    With the L2 penalty all folds and values of C share passes over the data, where there are two
    classes or one is fitted against the rest; multinomial fits share the loaded rows. With an L1
    penalty, bounds or factors each fold is a path, from the smallest C to the largest.

    Parameters
    ----------
    Cs : int or sequence of float, default 10
        Values of C; a number means so many from 1e-4 to 1e4, evenly in their logarithm.
    eps : float, optional
        Where `Cs` is a number they are instead those from the largest C that leaves only
        unpenalised coefficients, with the least of l1_ratios (at least 1e-3), to 1 / `eps` times
        that, as the `eps` of `LassoCV`.
    l1_ratios : sequence of float, optional
        Shares of the L1 penalty, from 0 (L2) to 1 (L1), of which the best is taken together with C;
        default: 0, or 1 with `penalty="l1"`. Given, attributes have an axis for them.
    fit_intercept : bool, default True
        Whether to fit an intercept, which is never penalised.
    cv : int, scikit-learn splitter, iterable of (train, test), or None
        Folds, as in scikit-learn; None is 5, stratified. Dask collections take a number: their rows
        are assigned to folds at random (`random_state`), class by class within each partition.
    penalty : {"l2", "l1", "elasticnet"}, default "l2"
        "l1": that of `l1_ratios=(1,)`; all others leave the kind to `l1_ratios`, also "deprecated",
        scikit-learn's default. Without a penalty: `Cs` with inf.
    dual, solver, n_jobs, verbose, intercept_scaling, multi_class
        As of `LogisticRegression`: more than two classes are multinomial unless `multi_class` is
        "ovr". "auto" and "newton" solve problems of two classes, and of one class against the rest,
        with few features together (up to 1,000, or 500 sparse ones); others are solved one after
        another on the same rows, each from the solution of the next smaller C.
    scoring : str, callable or None
        What is best on rows held out: a name of `sklearn.metrics.get_scorer_names()`, a function of
        (estimator, X, y), or None, "accuracy". More than two classes are scored together. Functions
        of rows want data in memory; those of scikit-learn's `make_scorer` do not.
    refit : bool, default True
        Whether to fit the best C and l1_ratio on all rows; else these and the coefficients are the
        means of those best in each fold.
    selection : {"min", "1se"}, default "min"
        "min" takes the C and l1_ratio with the best mean score over the folds; "1se" of this
        l1_ratio the smallest C whose mean is within one standard error of the best.
    relax : bool, default False
        Whether the features that an L1 penalty has selected, of each class, are fitted again
        without it, but within the bounds. The C and l1_ratio are chosen before. Wants an L1 part.
    class_weight : dict or "balanced", optional
        Factors of the rows' weights by label, in training; "balanced" by the labels of all rows.
    tol : float, default 1e-6
        Bound on relative suboptimality of every problem at which to stop.
    max_iter : int, optional
        Iterations of a problem at most; default: the solver's own.
    random_state : int, optional
        Seed of folds that are drawn, and of solvers that draw.
    use_legacy_attributes : bool, default True
        Layout of the attributes below, as in scikit-learn 1.9.
    penalty_factor, P2, lower_bounds, upper_bounds, positive, groups, standardize, schema
        As of `LogisticRegression`. (The `groups` of `fit` are for the splitter.)

    Attributes
    ----------
    C_ : (1,) or (classes,) array, or float
        Best C, repeated; a float with `use_legacy_attributes=False`.
    Cs_ : (values,) array
    l1_ratio_ : (1,) or (classes,) array, or float
        Best l1_ratio, like `C_`; in the array None where `l1_ratios` is not given.
    l1_ratios_ : (l1_ratios,) array
        Those that were tried; [None] where `l1_ratios` is not given.
    coef_, intercept_, classes_, n_features_in_, feature_names_in_
        As of `LogisticRegression`.
    scores_ : dict of label to (folds, values, l1_ratios) array, or (folds, l1_ratios, values) array
        Scores on the rows held out, the same for all labels; for two classes under the second label
        only. In the dict, as in the two below, the axis of l1_ratios is there if they are given.
    coefs_paths_ : dict of label to (folds, values, l1_ratios, size) array, or (folds, l1_ratios,
    values, 1 or classes, size) array
        Coefficients, last the intercept if there is one.
    n_iter_ : (1, folds, values, l1_ratios) array, or (folds, l1_ratios, values) array
        Most iterations of any class.
    report_ : Report
        `parts` has the reports of all problems: l1_ratios, classes, folds and values of C in this
        order, C fastest, then those fitted again on all rows. Multinomial fits have one report for
        all classes.

    Notes
    -----
    A fold that lacks a class trains with a constant in its place: the intercept at which a row's
    loss is at rounding error, about -36 (of a multinomial fit so much below the others). It is
    scored like others. Where a score is not defined
    (nan) in a fold, that fold does not count in the choice of C.

    Unless scikit-learn's metadata routing is enabled, scorers are given `sample_weight` where `fit`
    is.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> import daskglm
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = daskglm.LogisticRegressionCV(Cs=[0.01, 1.0], scoring="roc_auc").fit(X, y)
    >>> model.scores_[1].shape
    (5, 2)
    """

    C_: Any
    l1_ratio_: Any
    coefs_paths_: Any
    scores_: Any
    n_iter_: Any
    # groups are for the splitter, the others no metadata
    __metadata_request__fit: ClassVar[dict[str, Any]] = dict.fromkeys(
        ("groups", "callback", "checkpoint", "checkpoint_every", "resume"), UNUSED
    )
    # it is for the scorer
    __metadata_request__score: ClassVar[dict[str, Any]] = {"sample_weight": UNUSED}

    def __init__(
        self,
        Cs: Any = 10,
        *,
        eps: float | None = None,
        l1_ratios: Any = None,
        fit_intercept: bool = True,
        cv: Any = None,
        dual: bool | str = False,
        penalty: str = "l2",
        scoring: Any = None,
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int | None = None,
        class_weight: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        refit: bool = True,
        selection: str = "min",
        relax: bool = False,
        intercept_scaling: float = 1,
        multi_class: str = "auto",
        random_state: Any = None,
        use_legacy_attributes: Any = True,
        penalty_factor: Any = None,
        P2: Any = None,
        lower_bounds: Any = None,
        upper_bounds: Any = None,
        positive: bool = False,
        groups: Any = None,
        standardize: bool = False,
        schema: Any = None,
    ) -> None:
        self.Cs = Cs
        self.eps = eps
        self.l1_ratios = l1_ratios
        self.fit_intercept = fit_intercept
        self.cv = cv
        self.dual = dual
        self.penalty = penalty
        self.scoring = scoring
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.refit = refit
        self.selection = selection
        self.relax = relax
        self.intercept_scaling = intercept_scaling
        self.multi_class = multi_class
        self.random_state = random_state
        self.use_legacy_attributes = use_legacy_attributes
        self.penalty_factor = penalty_factor
        self.P2 = P2
        self.lower_bounds = lower_bounds
        self.upper_bounds = upper_bounds
        self.positive = positive
        self.groups = groups
        self.standardize = standardize
        self.schema = schema

    def _params(self) -> dict[str, Any]:
        ratios = l1_ratios_of(self.penalty, self.l1_ratios)
        return {**super()._params(), "l1_ratio": max(ratios), "penalty": "l2"}

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        offset: Any = None,
        *,
        groups: Any = None,
        callback: Callback | None = None,
        checkpoint: Any = None,
        checkpoint_every: int | str = "60s",
        resume: Any = None,
        **params: Any,
    ) -> Any:
        """Choose C by cross-validation and fit.

        Parameters
        ----------
        X, y, sample_weight, offset
            As of `LogisticRegression.fit`. Rows held out are scored with their offsets.
        groups : (n,) array, optional
            Groups of rows that belong together, for splitters such as GroupKFold; data in memory
            only.
        callback, checkpoint, checkpoint_every, resume
            As of `daskglm.fit`. A checkpoint is of the folds; to refit the best C is soon done
            again. Where folds are drawn, `random_state` must be the same number again.
        params
            Further arguments of splitter and scorer, by scikit-learn's metadata routing where that
            is enabled.

        Returns
        -------
        self; an awaitable of it where the current client is asynchronous.

        Raises
        ------
        ValueError
            For bad data, parameters out of range, and folds that cannot be used.
        """
        split_params, score_params = self._routed(sample_weight, groups, params)
        return self._fit(
            X,
            y,
            sample_weight,
            offset=offset,
            split_params=split_params,
            score_params=score_params,
            callback=callback,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            resume=resume,
        )

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, **params: Any
    ) -> float:
        """Score predictions by `scoring`; dask collections by accuracy only.

        Parameters
        ----------
        X, y, sample_weight, offset
            As of `LogisticRegression.score`.
        params
            Further arguments of the scorer, where scikit-learn's metadata routing is enabled.
        """
        scoring = Scoring.of(self.scoring, self)
        given = {**params, **({} if sample_weight is None else {"sample_weight": sample_weight})}
        if sklearn.get_config()["enable_metadata_routing"]:
            given = process_routing(self, "score", **given).scorer.score if given else {}
        elif params:
            raise ValueError(_only_routed("score", params))
        if scoring.name == DEFAULT:
            return super().score(X, y, given.get("sample_weight"), offset)
        if is_lazy(X):
            raise ValueError(
                f"scoring={self.scoring!r}: score of dask collections gives accuracy only; "
                "compute X and y first"
            )
        if offset is not None:
            scoring.check_offsets()
        beside = {} if offset is None else {"offset": offset}
        check_added(self, "score", beside)
        if design_of_model(self) is None:
            X = with_columns_of_fit(self, X, (y, sample_weight, offset))
        asked = {"y": y, "sample_weight": given.pop("sample_weight", None), **beside}
        X, beside = encoded(self, X, asked)
        X, y, weight, _ = self._taken(X, beside.pop("y"), beside.pop("sample_weight"), **beside)
        arrays = partitions(X, y, weight, classify=True, **beside).arrays
        assert arrays is not None
        if weight is not None:
            given["sample_weight"] = arrays[2]
        model, rows = self, (Named(arrays[0], X.names) if isinstance(X, Named) else arrays[0])
        if offset is not None:
            decided = Decided(self.classes_, joint=self._fitted_together)
            model, rows = decided, self.decision_function(rows, arrays[3])
        return number(scoring.scorer(model, rows, np.asarray(arrays[1]), **given), self.scoring)

    def get_metadata_routing(self) -> Any:
        """Tell scikit-learn's metadata routing that splitter and scorer take arguments."""
        fitted, scored = MethodMapping(), MethodMapping()
        fitted.add(caller="fit", callee="split")
        scored.add(caller="fit", callee="score").add(caller="score", callee="score")
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(splitter=self.cv, method_mapping=fitted)
        return router.add(scorer=Scoring.of(self.scoring, self).scorer, method_mapping=scored)

    def _routed(self, sample_weight: Any, groups: Any, params: dict[str, Any]) -> tuple[dict, dict]:
        """Arguments of the splitter and of the scorer."""
        if sklearn.get_config()["enable_metadata_routing"]:
            given = params if groups is None else {**params, "groups": groups}
            routed = process_routing(self, "fit", sample_weight=sample_weight, **given)
            return dict(routed.splitter.split), dict(routed.scorer.score)
        if params:
            raise ValueError(_only_routed("fit", params))
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return ({} if groups is None else {"groups": groups}), weights

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        *,
        offset: Any = None,
        start: Any = None,
        client: Any = None,
        split_params: Mapping[str, Any] = MappingProxyType({}),
        score_params: Mapping[str, Any] = MappingProxyType({}),
        **more: Any,
    ) -> Any:
        plan = self._plan(is_lazy(X), split_params, score_params)
        settings = self._settings(**more)
        for ratio in plan.ratios:
            penalty = replace(settings.penalty, l1_ratio=ratio)
            replace(settings, C=float(plan.Cs.max()), penalty=penalty).check()
        self._check_relax(settings)
        if offset is not None:
            plan.scoring.check_offsets()
        beside = {"sample_weight": sample_weight, "offset": offset}

        def work(X: Any, y: Any, settings: FitConfig, known: Known, data: dict[str, Any]) -> Any:
            return self._choose(X, y, settings, known, data, client, plan)

        return self._on_rows(X, y, beside, settings, client, work)

    def _check_relax(self, settings: FitConfig) -> None:
        """Raise ValueError for what is no flag, and where nothing is fitted again."""
        given = f"penalty={self.penalty!r} with l1_ratios={shown(self.l1_ratios)}"
        check_relax(self.relax, given, settings)
        if self.relax and not self.refit:
            raise ValueError(
                "relax=True fits the model of the best C again, and refit=False makes none: give "
                "refit=True, or relax=False"
            )

    def _plan(
        self, lazy: bool, split_params: Mapping[str, Any], score_params: Mapping[str, Any]
    ) -> SearchConfig:
        """Check all parameters that `FitConfig` does not know; raises ValueError."""
        check_flag(self.refit, "refit")
        if not (
            isinstance(self.use_legacy_attributes, str) and self.use_legacy_attributes == "warn"
        ):
            check_flag(self.use_legacy_attributes, "use_legacy_attributes")
        if self.penalty is None:
            raise ValueError(
                "penalty=None: a fit without a penalty is C = inf: give Cs=[float('inf')], or "
                "among others"
            )
        ratios = l1_ratios_of(self.penalty, self.l1_ratios)
        check_choice(self.selection, "selection", SELECTIONS)
        if self.selection != "min" and not self.refit:
            raise ValueError(
                f"selection={self.selection!r} takes one C for all folds, and refit=False averages "
                "those of the folds: give refit=True, or selection='min'"
            )
        scoring = Scoring.of(self.scoring, self)
        if lazy and wants_rows(scoring, score_params):
            raise ValueError(
                f"scoring={self.scoring!r} is a function of rows, which stay with the workers: "
                "for dask collections "
                "give a name of sklearn.metrics.get_scorer_names() or the result of "
                "sklearn.metrics.make_scorer"
            )
        if "sample_weight" in score_params:
            scoring.check_weights()
        check_splits(self.cv)
        Cs = grid_of_C(self.Cs, "Cs")
        check_share(self.eps, optional=True)
        return SearchConfig(Cs, ratios, self.cv, scoring, split_params, score_params)

    def _choose(
        self,
        X: Any,
        y: Any,
        settings: FitConfig,
        known: Known,
        beside: dict[str, Any],
        client: Any,
        plan: SearchConfig,
    ) -> LogisticRegressionCV:
        began = time.perf_counter()
        cv = 5 if plan.cv is None else plan.cv
        rows = {**beside, "client": client, "cv": cv, "split_params": plan.split_params}
        checkpoints = checkpoints_of_mixes(settings, len(plan.ratios))
        with open_grid(X, y, settings.without_checkpoints(), **rows, joint=JointGrid) as grid:
            assert grid.classes is not None
            plan = replace(plan, scoring=plan.scoring.of_joint(isinstance(grid, JointGrid)))
            plan.scoring.check_classes(grid.classes)
            if self.eps is not None and is_whole(self.Cs):
                largest = self._largest_alpha(grid, min(plan.ratios))
                Cs = np.geomspace(1.0, 1.0 / float(self.eps), int(self.Cs)) / largest
                plan = replace(plan, Cs=Cs)
            weighted = beside["sample_weight"] is not None
            as_trained = weighted == ("sample_weight" in plan.score_params)
            by_ratio, reports = [], []
            for ratio, grid.checkpoints in zip(plan.ratios, checkpoints, strict=True):
                grid.set_l1_ratio(ratio)
                solutions = grid.solve(grid.batch(plan.Cs), resumable=True)
                scores = scores_of(
                    grid, solutions, plan.Cs, plan.scoring, plan.score_params, as_trained=as_trained
                )
                by_ratio.append(_tried(grid, solutions, scores))
                reports += solutions.reports
            tried = _of_all(by_ratio)
            W, best, again = self._best(grid, tried, plan)
            record = record_of(settings, grid.engine.facts).chosen(
                *best, relaxed=bool(self.relax), averaged=not self.refit
            )
            reports = each_once([*reports, *again])
            report = grid.report(reports, began)
            classes = grid.classes
        warn_unsolved(reports, float(settings.tol))
        d = report.n_features
        intercept = W[:, d] if settings.fit_intercept else np.zeros(len(W))
        self._adopt(Trained(W[:, :d], intercept, classes, report, record), known)
        self._lay_out(tried, plan, best)
        return self

    def _largest_alpha(self, grid: ProblemGrid, ratio: float) -> float:
        """Return the least 1 / C at which all penalised coefficients of all classes are zero.

        Multinomial fits have the slopes there of one class against the rest. Cost: some passes for
        each class.
        """
        grid.set_l1_ratio(ratio)
        found = []
        for k, problem in enumerate(grid.problems):
            sides = grid.objective.sides(k, -1)
            of_class = PathProblem(grid.engine, problem, sides, grid.loss, grid.settings)
            # of strengths beside the mean loss
            first = of_class.grid(1, 0.5, of_class.unpenalised())[0]
            found.append(float(first) * of_class.total)
            grid.single_passes += of_class.passes
        return max(found)

    def _best(
        self, grid: ProblemGrid, tried: Tried, plan: SearchConfig
    ) -> tuple[np.ndarray, tuple[float, float], Sequence[Any]]:
        """Coefficients, C and l1_ratio, and the reports of what was fitted again for them."""
        flat = tried.scores.reshape(len(tried.scores), -1)
        kept = np.flatnonzero(defined(flat, self.scoring))
        scores = tried.scores[kept]
        if self.refit:
            c, r = np.unravel_index(scores.sum(axis=0).argmax(), scores.shape[1:])
            if self.selection != "min":
                c = selected(-scores[:, :, r].T, 1.0 / plan.Cs, self.selection)
            C, ratio, K = float(plan.Cs[c]), plan.ratios[r], len(tried.paths)
            grid.set_l1_ratio(ratio)
            again = grid.solve(
                ProblemBatch(np.arange(K), np.full(K, -1), np.full(K, C)),
                grid.means(tried.paths[:, :, c, r]),
            )
            reports = again.reports
            if self.relax:
                again = grid.relaxed(again)
                reports = [*reports, *again.reports]
            return again.W, (C, ratio), reports
        each = flat[kept].argmax(axis=1)
        c, r = np.unravel_index(each, scores.shape[1:])
        best = float(plan.Cs[c].mean()), float(np.array(plan.ratios)[r].mean())
        return tried.paths[:, kept, c, r].mean(axis=1), best, []

    def _lay_out(self, tried: Tried, plan: SearchConfig, best: tuple[float, float]) -> None:
        """Set the attributes of what was tried, in the layouts of scikit-learn 1.9."""
        K = len(tried.paths)
        given = not (self.l1_ratios is None or isinstance(self.l1_ratios, str))
        paths, scores, n_iter = tried.paths, tried.scores, tried.n_iter
        self.Cs_ = plan.Cs
        self.l1_ratios_ = np.array(plan.ratios if given else [None])
        C, ratio = best
        if self.use_legacy_attributes:
            labels = (self.classes_[1:] if K == 1 else self.classes_).tolist()
            if not given:
                paths = paths[:, :, :, 0]
                scores = scores[:, :, 0]
                n_iter = n_iter[:, :, 0]
            self.C_ = np.full(K, C)
            self.l1_ratio_ = np.array([ratio if given or not self.refit else None] * K)
            self.coefs_paths_ = dict(zip(labels, paths, strict=True))
            self.scores_ = {label: scores.copy() for label in labels}
            self.n_iter_ = n_iter[None]
        else:
            self.C_, self.l1_ratio_ = C, ratio
            self.coefs_paths_ = paths.transpose(1, 3, 2, 0, 4)
            self.scores_, self.n_iter_ = scores.swapaxes(1, 2), n_iter.swapaxes(1, 2)


def _tried(grid: ProblemGrid, solutions: Solutions, scores: np.ndarray) -> Tried:
    """Return the results of one l1_ratio, without an axis for it."""
    shape = (len(grid.problems), *scores.shape)
    n_iter = np.array([part.n_iter for part in solutions.reports], dtype=np.int32).reshape(shape)
    return Tried(solutions.W.reshape(*shape, -1), scores, n_iter.max(axis=0))


def _of_all(by_ratio: Sequence[Tried]) -> Tried:
    """Join the results of each l1_ratio, along an axis for them."""
    return Tried(
        np.stack([tried.paths for tried in by_ratio], axis=3),
        np.stack([tried.scores for tried in by_ratio], axis=2),
        np.stack([tried.n_iter for tried in by_ratio], axis=2),
    )


def _only_routed(method: str, params: Mapping[str, Any]) -> str:
    return (
        f"[{', '.join(params)}]: passing extra keyword arguments to LogisticRegressionCV.{method} "
        "is only supported if "
        "enable_metadata_routing=True, set by sklearn.set_config"
    )
