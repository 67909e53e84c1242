"""Predicted means with standard errors and intervals, in memory or where dask computes them.

The covariance V of the coefficients is F F'. So the squared error of the margin x.w is |F'x|^2: the
columns of F are predicted as if they were models, by `worker.prediction`, and nothing else reads X.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from daskglm.data.containers import plain
from daskglm.data.frames import with_features
from daskglm.data.partitions import is_dask, is_lazy
from daskglm.data.targets import rows_of
from daskglm.data.values import Place
from daskglm.estimators.tables import as_table, with_roles
from daskglm.frames.design import Design
from daskglm.losses.base import LOGISTIC, Loss
from daskglm.losses.links import LOGIT, Link
from daskglm.worker.prediction import Margins, checked_rows, in_kind, with_offset

COLUMNS = ("mean", "se", "lower", "upper")


class MeanModel(NamedTuple):
    """A fit to predict from: coefficients (p,), the intercept last, and their covariance (p, p).

    `columns` names features that have names, `design` is that of a table with levels.
    """

    params: np.ndarray
    cov: np.ndarray
    loss: Loss
    fit_intercept: bool
    columns: tuple[str, ...] | None
    design: Design | None = None

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.params) - self.fit_intercept


def predict_mean(
    model: MeanModel, X: Any, offset: Any, exposure: Any, *, response: bool, reach: float
) -> Any:
    """Predict means, or margins, of the rows of X.

    Intervals reach so many standard errors to each side; see `Inference.predict`.
    """
    finish = partial(_finished, link=_link_of(model.loss) if response else None, reach=reach)
    X = plain(X)
    if model.design is not None:
        X = as_table(X, model.design)
        added = with_roles(model.design.roles, X, {"offset": offset, "exposure": exposure})
        offset, exposure = added["offset"], added["exposure"]
    X, beside = with_offset(X, offset, exposure)
    X = X if model.design is not None else _checked(model, X)
    d = model.n_features
    # the offset is added to all; the model of zeros tells it
    models = np.vstack([model.params, _root(model.cov).T, np.zeros(len(model.params))])
    intercepts = models[:, d] if model.fit_intercept else np.zeros(len(models))
    of = Margins(models[:, :d], intercepts, finish, COLUMNS, model.columns, model.design)
    return _as_frames(in_kind(X, of, like=np.empty((0, len(COLUMNS))), beside=beside), X)


def _link_of(loss: Loss) -> Link:
    link = LOGIT if loss.code == LOGISTIC else loss.link
    if link is None:
        raise ValueError(
            f"type='response': loss={loss.full_name!r} has no link from margins to means; give "
            "type='link'"
        )
    return link


def _root(cov: np.ndarray) -> np.ndarray:
    """Return F with F F' = cov, which may be singular."""
    values, vectors = np.linalg.eigh(cov)
    root: np.ndarray = vectors * np.sqrt(np.maximum(values, 0.0))
    return root


def _finished(scores: np.ndarray, link: Link | None, reach: float) -> np.ndarray:
    """Return mean, se, lower and upper (n, 4) of the margins of w, the columns of F, and zeros."""
    z, offset = scores[:, 0], scores[:, -1:]
    error = np.linalg.norm(scores[:, 1:-1] - offset, axis=1)
    ends = z - reach * error, z + reach * error
    if link is None:
        return np.stack([z, error, *ends], axis=1)
    if link.is_bounded:  # margins that no mean has are its end
        ends = tuple(np.clip(end, link.low, link.high) for end in ends)
    with np.errstate(divide="ignore"):
        low, high = link.mean(ends[0]), link.mean(ends[1])
    error = np.abs(link.slope(z)) * error
    return np.stack([link.mean(z), error, np.minimum(low, high), np.maximum(low, high)], axis=1)


def _checked(model: MeanModel, X: Any) -> Any:
    """Return rows with the features of the model; ValueError for others."""
    if isinstance(X, (list, tuple)) and is_lazy(X):
        return list(X)
    if hasattr(X, "columns") and model.columns is not None:
        X = with_features(X, model.columns, place=Place())
    elif not is_dask(X):
        X = rows_of(X)
    if X.ndim != 2 or X.shape[1] != model.n_features:
        raise ValueError(
            f"X has shape {X.shape}, but the model was fitted to {model.n_features} features"
        )
    return X if is_dask(X) or hasattr(X, "iloc") else checked_rows(X)


def _as_frames(found: Any, X: Any) -> Any:
    """Return predictions (n, 4) as a frame, lazy ones as lazy frames."""
    import pandas as pd

    if isinstance(found, list):
        import dask

        frame = dask.delayed(pd.DataFrame)
        return [frame(part, columns=list(COLUMNS)) for part in found]
    if isinstance(found, np.ndarray):
        return pd.DataFrame(found, columns=list(COLUMNS), index=getattr(X, "index", None))
    if hasattr(found, "map_partitions"):
        return found
    import dask.dataframe as dd

    return dd.from_dask_array(found, columns=list(COLUMNS))
