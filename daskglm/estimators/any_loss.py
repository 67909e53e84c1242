"""Estimators for any loss by its name, among them those of `register_loss`."""

from __future__ import annotations

from typing import Any

from daskglm.core.arguments import check_choice
from daskglm.estimators.ridge import Ridge
from daskglm.estimators.svm import LinearSVC
from daskglm.losses.table import JOINT_LOSSES, LOSSES, find


def _named(loss: Any, *, classifies: bool) -> str:
    found = find(loss)
    # those of this package have estimators of their own
    if found.classifies != classifies or (found.name in JOINT_LOSSES and not found.module):
        known = tuple(name for name, each in LOSSES.items() if each.classifies == classifies)
        check_choice(loss, "loss", known)
    return str(loss)


class LinearClassifier(LinearSVC):
    """Linear classifier with any loss of classes that `daskglm.losses.table` has.

    Parameters and attributes are those of `LinearSVC`, but `loss` takes any name.
    """

    @property
    def _loss(self) -> str:  # type: ignore[override]
        return _named(self.loss, classifies=True)


class LinearRegressor(Ridge):
    """Linear regression with any loss of numbers that `daskglm.losses.table` has.

    Other parameters and attributes are those of `Ridge`. L1 penalties and bounds want a smooth
    loss.

    Parameters
    ----------
    loss : str, default "squared"
    """

    def __init__(
        self,
        loss: str = "squared",
        *,
        alpha: Any = None,
        C: float | None = None,
        fit_intercept: bool = True,
        copy_X: bool = True,
        max_iter: int | None = None,
        tol: float = 1e-6,
        solver: str = "auto",
        positive: bool = False,
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
        groups: Any = None,
        standardize: bool = False,
        schema: Any = None,
    ) -> None:
        super().__init__(
            alpha,
            C=C,
            fit_intercept=fit_intercept,
            copy_X=copy_X,
            max_iter=max_iter,
            tol=tol,
            solver=solver,
            positive=positive,
            random_state=random_state,
            warm_start=warm_start,
            n_jobs=n_jobs,
            verbose=verbose,
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
            groups=groups,
            standardize=standardize,
            schema=schema,
        )
        self.loss = loss

    @property
    def _loss(self) -> str:  # type: ignore[override]
        return _named(self.loss, classifies=False)
