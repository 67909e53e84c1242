"""`LogisticRegression`, `LogisticRegressionCV` and `LinearSVC`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from daskglm.accel.record import (
    FLOATS,
    VERBOSE,
    WARM_START,
    Asked,
    Record,
    Rule,
    fewer_steps,
    refused_by_liblinear,
    with_constant,
    without_constant,
)

DEPRECATED = "deprecated"
# Whether this version of scikit-learn wants no `penalty`.
WITHOUT_PENALTY = LogisticRegression().penalty == DEPRECATED


def _kind(penalty: Any, ratio: Any, C: float) -> tuple[Any, float, float]:
    """Name of the penalty, share of its L1 part and C, by whichever parameters they are given."""
    if penalty == DEPRECATED:
        penalty = {0.0: "l2", 1.0: "l1"}.get(float(ratio), "elasticnet")
        if math.inf == C:
            penalty = None
    if penalty is None:
        return None, 0.0, math.inf
    return penalty, {"l2": 0.0, "l1": 1.0}.get(penalty, ratio), C


def _of(model: Any) -> tuple[Any, float, float]:
    return _kind(model.penalty, model.l1_ratio, model.C)


def _contradicts(asked: Asked) -> bool:
    """Whether scikit-learn, from 1.8 on, warns of more than that `penalty` is given."""
    model = asked.model
    if not WITHOUT_PENALTY:
        return False
    if model.l1_ratio is None:
        return True
    if model.penalty is None:
        return bool(model.C != 1.0 or model.l1_ratio != 0)
    # penalty="l1" is mostly given beside the default of l1_ratio, 0
    return model.penalty in ("l2", "l1") and model.l1_ratio not in (0, model.penalty == "l1")


def _refused(solver: str, penalty: Any, dual: bool) -> bool:
    """Whether scikit-learn has no such combination."""
    if solver == "liblinear":
        return penalty not in ("l1", "l2") or (penalty == "l1" and bool(dual))
    return bool(dual) or (penalty not in ("l2", None) and solver != "saga")


def _is_liblinear(asked: Asked) -> bool:
    return bool(asked.model.solver == "liblinear")


ONE_CLASS = Rule("one class", lambda asked: len(asked.classes) < 2)


def _too_long(asked: Asked) -> bool:
    model = asked.model
    if not asked.sparse or model.solver not in ("liblinear", "sag", "saga"):
        return False
    return bool(asked.X.indices.dtype == np.int64 or asked.X.indptr.dtype == np.int64)


def _logistic_parameters(asked: Asked) -> dict[str, Any]:
    model = asked.model
    _, ratio, C = _of(model)
    return {
        "C": C,
        "l1_ratio": ratio,
        "fit_intercept": model.fit_intercept and not _is_liblinear(asked),
        "class_weight": model.class_weight,
    }


def _logistic_attributes(asked: Asked, ours: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "classes_": asked.classes,
        "n_iter_": np.array([np.max(ours.n_iter_)], dtype=np.int32),
    }
    if _is_liblinear(asked):
        return found | without_constant(asked, ours.coef_)
    coef, intercept = asked.numbers(ours.coef_), asked.numbers(ours.intercept_)
    return found | {"coef_": coef, "intercept_": np.atleast_1d(intercept)}


def _deprecations(asked: Asked) -> tuple[Warning, ...]:
    """What scikit-learn says where `penalty` is given, from 1.8 on, which has another default."""
    model = asked.model
    if not WITHOUT_PENALTY or model.penalty == DEPRECATED:
        return ()
    said: tuple[Warning, ...] = (
        FutureWarning(
            "'penalty' was deprecated in version 1.8 of scikit-learn and will be removed in 1.10: "
            "use l1_ratio=0 for 'l2', l1_ratio=1 for 'l1', and C=np.inf for None."
        ),
    )
    if model.penalty == "l1" and model.l1_ratio != 1:
        text = (
            f"Inconsistent values: penalty=l1 with l1_ratio={model.l1_ratio}: give l1_ratio only."
        )
        said += (UserWarning(text),)
    return said


LOGISTIC = Record(
    name="LogisticRegression",
    checks={**FLOATS, "accept_sparse": "csr", "order": "C"},
    parameters=_logistic_parameters,
    attributes=_logistic_attributes,
    by_parameters=(
        fewer_steps(100),
        WARM_START,
        VERBOSE,
        Rule("penalty, l1_ratio and C that contradict each other", _contradicts),
        Rule(
            "a solver that scikit-learn refuses with this penalty",
            lambda asked: _refused(asked.model.solver, _of(asked.model)[0], asked.model.dual),
        ),
        Rule("n_jobs, of which scikit-learn warns", lambda asked: asked.model.n_jobs is not None),
    ),
    by_rows=(
        ONE_CLASS,
        Rule("sparse rows with indices of 64 bits, refused by liblinear, sag and saga", _too_long),
        Rule(
            "what LIBLINEAR refuses",
            lambda asked: (
                _is_liblinear(asked) and (len(asked.classes) > 2 or refused_by_liblinear(asked))
            ),
        ),
    ),
    classifies=True,
    warns=_deprecations,
    rows=lambda asked: with_constant(asked) if _is_liblinear(asked) else asked.X,
)


def _ratios(model: Any) -> Any:
    given = model.l1_ratios
    return None if given is None or isinstance(given, str) else given


def _cv_refused(asked: Asked) -> bool:
    model = asked.model
    ratios = _ratios(model)
    plain = DEPRECATED if WITHOUT_PENALTY else "l2"
    if model.penalty != plain or model.dual or (_is_liblinear(asked) and model.fit_intercept):
        return True
    return ratios is not None and bool(np.any(np.asarray(ratios))) and model.solver != "saga"


def _cv_parameters(asked: Asked) -> dict[str, Any]:
    model = asked.model
    scoring = None if isinstance(model.scoring, str) and model.scoring == "warn" else model.scoring
    names = ("Cs", "fit_intercept", "cv", "class_weight", "refit")
    return {
        **{name: getattr(model, name) for name in names},
        "l1_ratios": _ratios(model),
        "scoring": scoring,
        "use_legacy_attributes": _legacy(model),
    }


def _legacy(model: Any) -> bool:
    given = getattr(model, "use_legacy_attributes", True)
    return True if isinstance(given, str) else bool(given)


def _cv_attributes(asked: Asked, ours: Any) -> dict[str, Any]:
    names = ("C_", "Cs_", "l1_ratio_", "l1_ratios_", "scores_", "coefs_paths_", "n_iter_")
    found = {name: getattr(ours, name) for name in names}
    if _legacy(asked.model):
        labels = ours.classes_[-len(ours.scores_) :]
        for name in ("scores_", "coefs_paths_"):
            found[name] = dict(zip(labels, found[name].values(), strict=True))
    intercept = np.atleast_1d(ours.intercept_)
    return found | {"classes_": ours.classes_, "coef_": ours.coef_, "intercept_": intercept}


# Parameters with a default that scikit-learn is about to change.
CHANGING = {
    "l1_ratios": "The default value for l1_ratios will change from None to (0.0,)",
    "scoring": "The default value of the parameter 'scoring' will change from accuracy",
    "use_legacy_attributes": "The default value of use_legacy_attributes will change from True",
}


def _cv_deprecations(asked: Asked) -> tuple[Warning, ...]:
    given = asked.model.get_params(deep=False)
    said = [
        FutureWarning(f"{text} in a later version of scikit-learn; set it to avoid this warning.")
        for name, text in CHANGING.items()
        if isinstance(given.get(name), str) and given[name] == "warn"
    ]
    if WITHOUT_PENALTY and given["l1_ratios"] is None:
        said.append(
            FutureWarning("'l1_ratios=None' was deprecated in version 1.8 of scikit-learn.")
        )
    return tuple(said)


LOGISTIC_CV = Record(
    name="LogisticRegressionCV",
    checks={"dtype": np.float64, "accept_sparse": "csr", "order": "C"},
    parameters=_cv_parameters,
    attributes=_cv_attributes,
    by_parameters=(
        fewer_steps(100),
        VERBOSE,
        Rule("a penalty or solver that the search here is not for", _cv_refused),
    ),
    by_rows=(
        ONE_CLASS,
        Rule("what LIBLINEAR refuses", lambda a: _is_liblinear(a) and len(a.classes) > 2),
    ),
    classifies=True,
    warns=_cv_deprecations,
)


def _svc_refused(asked: Asked) -> bool:
    model = asked.model
    if model.multi_class != "ovr":
        return True
    if model.loss == "hinge":
        return bool(model.penalty != "l2" or model.dual not in (True, "auto"))
    return bool(model.penalty == "l1" and model.dual not in (False, "auto"))


def _svc_parameters(asked: Asked) -> dict[str, Any]:
    model = asked.model
    return {
        "C": model.C,
        "loss": model.loss,
        "l1_ratio": float(model.penalty == "l1"),
        "fit_intercept": False,
        "class_weight": model.class_weight,
    }


def _svc_attributes(asked: Asked, ours: Any) -> dict[str, Any]:
    steps = int(np.max(ours.n_iter_))
    return {"classes_": asked.classes, "n_iter_": steps, **without_constant(asked, ours.coef_)}


SVC = Record(
    name="LinearSVC",
    folder="svm",
    checks={
        "dtype": np.float64,
        "accept_sparse": "csr",
        "order": "C",
        "accept_large_sparse": False,
    },
    parameters=_svc_parameters,
    attributes=_svc_attributes,
    by_parameters=(
        fewer_steps(1000),
        VERBOSE,
        Rule("multi_class='crammer_singer', or a combination that LIBLINEAR refuses", _svc_refused),
    ),
    by_rows=(
        ONE_CLASS,
        Rule("what LIBLINEAR refuses", refused_by_liblinear),
    ),
    classifies=True,
    rows=with_constant,
    has_corners=lambda asked: bool(asked.model.loss == "hinge"),
)

RECORDS = (LOGISTIC, LOGISTIC_CV, SVC)
