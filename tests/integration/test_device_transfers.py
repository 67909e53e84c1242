"""What a solve on a device moves and waits for: bytes, copies and synchronisations, counted on the stand-in for CuPy."""

import dask.array as da
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import daskglm
from tests.conftest import make_problem, objective


@pytest.fixture
def uploads(cupy, monkeypatch):
    """Bytes of each NumPy array that is copied to the device."""
    if not hasattr(cupy.ndarray, "allocate"):
        pytest.skip("copies are counted on the stand-in")
    sent, asarray = [], cupy.asarray

    def counted(a, *args, **kwargs):
        if isinstance(a, np.ndarray):
            sent.append(a.nbytes)
        return asarray(a, *args, **kwargs)

    monkeypatch.setattr(cupy, "asarray", counted)
    return sent


@pytest.mark.parametrize(
    "options", [{}, {"sample_weight": True}, {"class_weight": {0: 2.0, 1: 1.0}}]
)
def test_targets_and_weights_are_made_on_the_device(uploads, options):
    """Before: labels became targets in the host's memory, within the first request of every problem."""
    X, y = make_problem(3000, 5, dtype=np.float32)
    y = (y > 0).astype(int)
    weight = np.random.default_rng(0).random(3000) if options.pop("sample_weight", False) else None
    seen = []
    model = daskglm.fit(
        X,
        y,
        sample_weight=weight,
        device="cuda",
        tol=1e-9,
        callback=lambda record: seen.append(sum(uploads)),
        **options,
    )
    assert max(seen) < 3000  # not a byte a row: coefficients and the like
    best = daskglm.fit(X, y, sample_weight=weight, tol=1e-10, **options)
    np.testing.assert_allclose(model.coef_, best.coef_, rtol=1e-3, atol=1e-4)


def test_a_hinge_is_not_polished_on_a_device_that_others_ask(cupy):
    """Out of core, vectors of the solver are in host memory though rows are on a device."""
    X, y = make_problem(400, 6, loss="hinge", dtype=np.float32)
    with pytest.warns(ConvergenceWarning):
        model = daskglm.fit(
            da.from_array(X, chunks=(200, 6)),
            da.from_array(y, chunks=200),
            loss="hinge",
            solver="sdca",
            tol=1e-9,
            device="cuda",
            out_of_core=True,
            random_state=0,
            max_iter=12,
            solver_options={"polish": True},
        )
    assert model.report_.solver == "sdca"
    host = daskglm.fit(X, y, loss="hinge", solver="sdca", tol=1e-6, random_state=0)
    values = [objective(X, y, m.coef_, m.intercept_, 1.0, "hinge") for m in (host, model)]
    assert values[1] <= values[0] * (1 + model.report_.relative_gap + 1e-6)
