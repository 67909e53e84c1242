"""Models of rows of codes on a device are those of the same rows as CSR on the host."""

import numpy as np
import pandas as pd
import pytest

import daskglm
from daskglm.core.device import gpu
from daskglm.estimators.tables import AliasedColumnWarning
from tests.kernels import coded_cases

N = 600
# of few coefficients, and of more than tiles of several vectors are made dense for
FEW = coded_cases.coded(N, k=2, seed=3)
WIDE = coded_cases.coded(N, k=2, seed=3, counts=((5,), (300,), (400,)), ranks=(1, 2, 0))
RNG = np.random.default_rng(0)
MARGINS = coded_cases.sparse(FEW) @ RNG.normal(size=FEW.shape[1])
NOISY = MARGINS + RNG.logistic(size=N)
TARGETS = {
    "two": (NOISY > 0).astype(int),
    "three": np.digitize(NOISY, [-1.0, 1.0]),
    "numbers": MARGINS + RNG.normal(size=N),
    "counts": RNG.poisson(np.exp(0.2 * MARGINS)),
}
FITS = {
    "two classes": ("two", {}),
    "dual ascent": ("two", {"solver": "sdca", "tol": 1e-6}),
    "dual ascent with corners": ("two", {"solver": "sdca", "tol": 1e-6, "l1_ratio": 0.5}),
    "columns": ("two", {"l1_ratio": 1.0, "C": 0.05}),
    "groups": ("two", {"l1_ratio": 1.0, "C": 0.05, "groups": np.arange(FEW.shape[1]) // 4}),
    "several classes": ("three", {"loss": "multinomial"}),
    "ordered classes": ("three", {"loss": "ordinal"}),
    "squares": ("numbers", {"loss": "squared"}),
    "Huber": ("numbers", {"loss": "huber"}),
    "counts": ("counts", {"family": "poisson", "alpha": 0.01}),
}


def assert_alike(cupy, rows, y, **given):
    """The gap that is proved on the device bounds the distance from the host's optimum."""
    found = daskglm.fit(rows, y, device="cuda", **({"tol": 1e-9} | given))
    given = {key: value for key, value in given.items() if key not in ("solver", "tol")}
    best = daskglm.fit(coded_cases.sparse(rows), y, **given, tol=1e-11)
    assert found.report_.device == "cuda"
    assert found.report_.converged
    least = best.report_.objective
    beyond = found.report_.objective - least
    assert beyond <= (found.report_.relative_gap + 1e-10) * least
    assert found.report_.objective >= least * (1 - best.report_.relative_gap - 1e-10)


@pytest.mark.parametrize("fit", FITS)
def test_models_are_those_of_sparse_rows(cupy, fit):
    target, given = FITS[fit]
    assert_alike(cupy, FEW, TARGETS[target], **given)


@pytest.mark.parametrize("fit", ["two classes", "columns", "several classes", "ordered classes"])
def test_models_of_many_coefficients(cupy, fit):
    target, given = FITS[fit]
    assert_alike(cupy, WIDE, TARGETS[target], **{"C": 0.1, **given, "tol": 1e-7})


@pytest.mark.parametrize("fit", ["two classes", "several classes", "ordered classes", "counts"])
def test_models_by_sums_of_pairs_of_levels(cupy, monkeypatch, fit):
    """Where cuBLAS's products would be less work, too."""
    monkeypatch.setattr(gpu().coded.coded_gram, "ADDITION", 0)
    target, given = FITS[fit]
    assert_alike(cupy, FEW, TARGETS[target], solver="newton", **given)


def test_a_sample_of_codes_preconditions(cupy):
    """TRON's samples are taken out of the rows on the device."""
    rows = coded_cases.coded(4000, k=1, seed=5, dtype=np.float32)
    y = np.random.default_rng(1).integers(0, 2, 4000)
    assert_alike(cupy, rows, y, solver="tron", C=10.0, tol=1e-7)


def test_tables_of_text_go_to_the_device_by_their_codes(cupy, monkeypatch):
    moved, backend = [], gpu()
    move = backend.move
    monkeypatch.setattr(backend, "move", lambda *args: moved.append(move(*args)) or moved[-1])
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {
            "town": rng.choice(["a", "b", "c", "d"], 2000),
            "car": rng.choice([f"car {k}" for k in range(300)], 2000),
            "age": rng.random(2000),
        }
    )
    y = rng.integers(0, 2, 2000)
    found = daskglm.fit(frame, y, device="cuda", tol=1e-8)
    assert {type(rows) for rows in moved} == {backend.coded.Rows}
    assert [part.shape[1] for part in moved[0].parts] == [1, 1, 0, 1]
    wanted = daskglm.fit(frame, y, tol=1e-8)
    assert found.report_.objective == pytest.approx(wanted.report_.objective, rel=1e-7)
    np.testing.assert_allclose(found.predict_proba(frame), wanted.predict_proba(frame), atol=1e-3)


def test_columns_that_depend_on_others_are_left_out_on_the_device_too(cupy):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"town": rng.choice(["a", "b", "c"], 900), "age": rng.random(900)})
    frame["months"] = 12.0 * frame.age
    y = rng.poisson(1.0 + (frame.town == "b"))
    models = []
    for device in ("cuda", "cpu"):
        model = daskglm.PoissonRegressor(alpha=0.0, tol=1e-9, device=device)
        with pytest.warns(AliasedColumnWarning, match="months"):
            models.append(model.fit(frame, y))
    assert models[0].report_.device == "cuda"
    assert models[0].report_.objective == pytest.approx(models[1].report_.objective, rel=1e-8)
