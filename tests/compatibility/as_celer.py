"""celer's estimators and its path over ours, for celer's own tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import linear_model

import daskglm
from tests.compatibility.as_statsmodels import not_applicable

# celer's tolerance of paths is on the scale of these gaps: relative to the loss of the zero vector.
PATH_TOL = 1e-2
WORDS = {"weights": "penalty_factor", "n_alphas": "alphas"}


def _ours(base: Any, **fixed: Any) -> Any:
    """Our estimator with celer's parameters: weights are factors of the penalty, those of its working sets do nothing."""

    class Ours(base):  # type: ignore[misc]
        weights = property(
            lambda self: self.penalty_factor,
            lambda self, value: setattr(self, "penalty_factor", value),
        )

    def made(*args: Any, **given: Any) -> Any:
        given = {WORDS.get(name, name): value for name, value in given.items()}
        kept = {name: value for name, value in given.items() if name in base._get_param_names()}
        kept |= dict(zip(("alpha",), args, strict=False))
        if str(kept.get("solver")).startswith("celer"):
            del kept["solver"]
        return Ours(**{**fixed, **kept})

    # under this name `pickle` finds it
    Ours.__name__ = Ours.__qualname__ = f"Our{base.__name__}"
    globals()[Ours.__name__] = Ours
    return made


Lasso = _ours(daskglm.Lasso)
LassoCV = _ours(daskglm.LassoCV)
ElasticNet = _ours(daskglm.ElasticNet)
ElasticNetCV = _ours(daskglm.ElasticNetCV)
LogisticRegression = _ours(
    daskglm.LogisticRegression, l1_ratio=1.0, fit_intercept=False, multi_class="ovr"
)


def of_scikit_learn(base: Any) -> Any:
    """Its CV estimators, which no longer have `n_alphas`."""

    def made(n_alphas: int = 100, **given: Any) -> Any:
        return base(alphas=n_alphas, **given)

    return made


sklearn_LassoCV = of_scikit_learn(linear_model.LassoCV)
sk_ElasticNetCV = of_scikit_learn(linear_model.ElasticNetCV)


def celer_path(
    X: Any,
    y: Any,
    pb: str,
    eps: float = 1e-3,
    n_alphas: int = 100,
    alphas: Any = None,
    l1_ratio: float = 1.0,
    tol: float = 1e-6,
    weights: Any = None,
    return_thetas: bool = False,
    return_n_iter: bool = False,
    **solver: Any,
) -> Any:
    """alphas, coefficients (d, alphas) and gaps of a path, each a fit of ours without an intercept."""
    if pb not in ("lasso", "logreg"):
        not_applicable("groups of celer's path")
    if pb == "logreg" and l1_ratio != 1.0:
        raise NotImplementedError
    n, d = X.shape
    factors = np.ones(d) if weights is None else np.asarray(weights, float)
    slopes = np.abs(np.asarray(X.T @ y)).ravel() / factors
    largest = slopes.max() / (n * l1_ratio if pb == "lasso" else 2.0)
    alphas = largest * np.geomspace(1.0, eps, n_alphas) if alphas is None else np.sort(alphas)[::-1]
    coefs, gaps, steps = np.empty((d, len(alphas))), [], []
    for k, alpha in enumerate(alphas):
        more = {"l1_ratio": l1_ratio, "fit_intercept": False, "tol": PATH_TOL * tol}
        more["penalty_factor"] = None if weights is None else factors
        if pb == "lasso":
            model: Any = daskglm.ElasticNet(alpha=alpha, **more).fit(X, y)
            gap = model.dual_gap_
        else:
            model = daskglm.LogisticRegression(C=1.0 / alpha, **more).fit(X, y)
            report = model.report_
            gap = report.relative_gap * report.objective / model.C
        coefs[:, k] = np.ravel(model.coef_)
        gaps.append(gap)
        # celer counts the look at the gap of the start
        steps.append(max(1, np.max(model.n_iter_)))
    found = [np.asarray(alphas), coefs, np.asarray(gaps)]
    found += [np.empty((len(alphas), n))] if return_thetas else []
    return tuple(found + ([np.asarray(steps)] if return_n_iter else []))
