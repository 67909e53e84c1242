"""Real data on a device, float32: every solver's objective is the host's to 1e-6.

On the stand-in for CuPy every third row of them, which takes half a minute a fit even so.
"""

import numpy as np
import pytest

import daskglm

SETS = [
    "higgs",
    "covtype15k",
    "a9a",
    "rcv1_binary",
]  # two dense, two sparse; rcv1_binary has 47,236 features


@pytest.mark.nightly
@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs", "sdca"])
@pytest.mark.parametrize("name", SETS)
def test_objective_is_the_hosts(cupy, name, solver, real_set):
    X, y = real_set(name)
    if solver == "newton" and X.shape[1] > 5000:
        pytest.skip(f"a Hessian of {X.shape[1]} x {X.shape[1]} is not what newton is for")
    if cupy.__version__.endswith("twin"):
        X, y = X[::3], y[::3]
    X = X.astype(np.float32)
    host = daskglm.fit(X, y, solver="tron", tol=1e-8)
    device = daskglm.fit(X, y, solver=solver, tol=1e-6, random_state=0, device="cuda")
    assert device.report_.converged
    assert device.report_.device == "cuda"
    assert abs(device.report_.objective / host.report_.objective - 1.0) <= 1e-6
