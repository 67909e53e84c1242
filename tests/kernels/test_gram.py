"""The Gram of dense rows, for widths around its register blocks."""

import numpy as np
import pytest

from daskglm.core.requests import Evaluate
from tests.kernels.cases import build, weighted_case
from tests.losses.formulas import reference


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [1, 3, 4, 5, 8, 18, 31, 32, 33, 63, 64, 65, 130, 300])
def test_gram_for_widths_around_its_register_blocks(n_features, dtype):
    engine, problem, X, y, s, o, w, _ = build(weighted_case("logistic", n_features, dtype))
    _, _, curvature = reference("logistic", y, X @ w + o)
    gram = engine.total(problem, Evaluate(w, 1, gram=True))["gram"]
    hessian = X.T @ ((s * curvature)[:, None] * X)
    rounding = 1e-6 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(
        np.triu(gram), np.triu(hessian), rtol=0.0, atol=rounding * np.abs(hessian).max()
    )
