"""scikit-learn's own examples run unchanged, print the same and draw the same."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = "DASKGLM_SKLEARN_EXAMPLES"
# Of the range of what is drawn: scikit-learn's solvers stop that far from the optimum at their default `tol`.
FAR = 0.01
EXAMPLES = {
    "linear_model/plot_ols_ridge.py": "Ridge",
    "linear_model/plot_huber_vs_ridge.py": "HuberRegressor",
    "linear_model/plot_ridge_path.py": "Ridge",
    "linear_model/plot_logistic_multinomial.py": "LogisticRegression",
    "linear_model/plot_ridge_coeffs.py": "Ridge",
    "linear_model/plot_robust_fit.py": "HuberRegressor",
    "classification/plot_classification_probability.py": "LogisticRegression",
    "model_selection/plot_roc_crossval.py": "LogisticRegression",
    "feature_selection/plot_rfe_with_cross_validation.py": "LogisticRegression",
    "miscellaneous/plot_kernel_approximation.py": "LinearSVC",
    "svm/plot_linearsvc_support_vectors.py": "LinearSVC",
    "feature_selection/plot_feature_selection.py": "LinearSVC",
}

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_scikit_learn_prints_and_draws_the_same(name, tmp_path):
    folder = os.environ.get(FOLDER)
    if folder is None:
        pytest.skip(f"{FOLDER} names no folder of scikit-learn's examples; a source archive has it")
    script = Path(folder) / name
    if not script.exists():
        pytest.skip(f"{script} is not there")
    theirs, _, drawn = outcome([str(script)], tmp_path / "theirs.npz")
    ours, said, drawn_here = outcome(["-m", "daskglm.accel", str(script)], tmp_path / "ours.npz")
    assert re.search(rf"^  {EXAMPLES[name]}: [1-9]\d* taken", said, re.M), said
    assert without_times(ours) == without_times(theirs)
    assert len(drawn) == len(drawn_here)
    for one, other in zip(drawn, drawn_here, strict=True):
        np.testing.assert_allclose(
            other,
            one,
            rtol=0,
            atol=FAR * max(np.nanmax(one) - np.nanmin(one), 1e-9) if one.size else 0,
        )


def outcome(arguments, path):
    """What a program prints, what it says as errors, and what it draws."""
    environment = os.environ | {
        "MPLBACKEND": "module://tests.accel.recorder",
        "DASKGLM_DRAWN": str(path),
    }
    environment["PYTHONPATH"] = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    with np.load(path) as arrays:
        return done.stdout, done.stderr, [arrays[key] for key in arrays]


def without_times(text):
    return re.sub(r"\d+\.\d+ ?s\b|in \d\.\d+", "", text)
