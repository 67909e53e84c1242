"""One sweep over the indices of compressed sparse rows: whether all are in range, and whether they
ascend.

Takes the place of SciPy's `has_canonical_format`, which follows the indices of a row without
checking its bounds.
"""

from __future__ import annotations

from daskglm.system.compiled import compiled

FAULTY, IN_RANGE, CANONICAL = 0, 1, 2


@compiled(nogil=True)
def fault(indices, indptr, stored, width):  # type: ignore[no-untyped-def]
    """Check the structure of CSR rows; find the first faulty row and its index out of range.

    Parameters
    ----------
    indices : (at least `stored`,) int32 or int64
    indptr : (n + 1,) int64
    stored : int
        Number of values.
    width : int
        Indices must be below it.

    Returns
    -------
    state, row, place : int
        (FAULTY, row, place), where place is -1 if `indptr` is at fault; (IN_RANGE, -1, -1), or
        (CANONICAL, -1, -1) if indices also ascend within every row, none twice.
    """
    canonical = True
    if indptr[0] != 0:
        return FAULTY, 0, -1
    for i in range(len(indptr) - 1):
        begin, end = indptr[i], indptr[i + 1]
        if end < begin or end > stored:
            return FAULTY, i, -1
        places = indices[begin:end]
        count = len(places)
        if count == 0:
            continue
        ascends = True
        for p in range(count - 1):  # without a way out, so that it runs on vectors
            ascends &= places[p] < places[p + 1]
        if ascends:
            if places[0] >= 0 and places[count - 1] < width:
                continue
        else:
            canonical = False
        for p in range(count):
            if places[p] < 0 or places[p] >= width:
                return FAULTY, i, begin + p
    return (CANONICAL if canonical else IN_RANGE), -1, -1
