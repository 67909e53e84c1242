"""cupyx.scipy.linalg of the stand-in."""

import scipy.linalg

from cupy._array import unwrap, wrap


def solve_triangular(
    a, b, trans=0, lower=False, unit_diagonal=False, overwrite_b=False, check_finite=False
):
    return wrap(scipy.linalg.solve_triangular(unwrap(a), unwrap(b), trans=trans, lower=lower))
