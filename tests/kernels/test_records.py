"""Kernels take all that they only read as read-only arrays."""

import numpy as np
import pytest
import scipy.sparse as sp

from daskglm import LogisticRegression, Ridge
from daskglm.kernels import cpu, csr, dense, sweep
from daskglm.kernels.records import read_only


def test_a_view_that_cannot_be_written_to():
    values = np.arange(3.0)
    view = read_only(values)
    assert values.flags.writeable
    assert not view.flags.writeable
    values[0] = 7.0
    assert view[0] == 7.0
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1.0


def all_read_only(X, *vectors):
    for part in (X,) if isinstance(X, np.ndarray) else (X.data, X.indices, X.indptr):
        part.flags.writeable = False
    for vector in vectors:
        vector.flags.writeable = False


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("estimator", [LogisticRegression(), Ridge()])
def test_read_only_rows_are_not_compiled_for(sparse, estimator):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    y, weight = np.sign(X[:, 0] + 0.5 * rng.standard_normal(60)), rng.random(60)
    X = sp.csr_matrix(X) if sparse else X
    own = csr if sparse else dense
    kernels = sweep.margins, sweep.evaluate, sweep.hessian_vector, own.squared_norms, own.spread
    for one in (None, weight):
        coef = estimator.fit(X, y, sample_weight=one).coef_
        before = [kernel.signatures for kernel in kernels]
        other, target, weights = X.copy(), y.copy(), weight.copy()
        all_read_only(other, target, weights)
        again = estimator.fit(other, target, sample_weight=None if one is None else weights)
        np.testing.assert_array_equal(again.coef_, coef)
        assert [kernel.signatures for kernel in kernels] == before


def test_rows_and_vectors_of_the_host():
    X = np.ones((3, 2))
    assert not cpu.for_rows(X)[1].flags.writeable
    assert X.flags.writeable
    sparse = cpu.for_rows(sp.csr_matrix(X))[1]
    assert not any(part.flags.writeable for part in sparse)
    assert not cpu.vector(np.ones(3), X).flags.writeable
    assert cpu.vector(None, X).flags.writeable
