"""What regressions of one target share: predictions with the container of X, and R^2."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score

import daskglm


@pytest.mark.parametrize("kind", ["LinearSVR", "HuberRegressor", "QuantileRegressor"])
def test_predictions_come_in_the_container_of_x(kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    y = X[:, 0] + 0.1 * rng.standard_normal(60)
    params = {"alpha": 0.01} if kind == "QuantileRegressor" else {}
    model = getattr(daskglm, kind)(**params)
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.fit(pd.DataFrame(X, columns=["a", "b"]), y)
    assert model.coef_.shape == (2,)
    assert np.ndim(model.intercept_) == 0
    assert list(model.feature_names_in_) == ["a", "b"]
    frame = pd.DataFrame(X, columns=["a", "b"])
    wanted = X @ model.coef_ + model.intercept_
    np.testing.assert_allclose(model.predict(frame), wanted)
    lazy = model.predict(da.from_array(X, chunks=(25, -1)))
    assert isinstance(lazy, da.Array)
    np.testing.assert_allclose(lazy.compute(), wanted)
    assert model.score(frame, y) == pytest.approx(r2_score(y, wanted))
    assert isinstance(model.n_iter_, int)
    assert model.report_.n_rows == 60
