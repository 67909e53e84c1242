"""The race of standard errors runs on few rows, and all contestants agree."""

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.inference import CONTESTANTS, COVARIANCES, main, problem


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_contestants_agree(covariance):
    X, y, clusters = problem(2000, 3)
    _, ours = CONTESTANTS["daskglm"](X, y, clusters, covariance)
    pytest.importorskip("statsmodels")
    _, theirs = CONTESTANTS["statsmodels"](X, y, clusters, covariance)
    # its GLM's HC1 lacks n / (n - p)
    factor = np.sqrt(2000 / 1996) if covariance == "HC1" else 1.0
    np.testing.assert_allclose(ours, factor * theirs, rtol=1e-6)


@pytest.mark.nightly
def test_a_table_is_printed():
    done = CliRunner().invoke(
        main, ["run", "--rows", "3000", "--contestant", "daskglm"], catch_exceptions=False
    )
    assert done.exit_code == 0
    assert done.output.count("| daskglm |") == 3
