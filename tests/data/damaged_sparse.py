"""Faces of the package on damaged sparse matrices, in a process of its own: it prints as JSON what each one said.

Run as `python -m tests.data.damaged_sparse memory|dask|device`. A routine that follows a bad index may end the process.
"""

import json
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import daskglm

N, D = 400, 50
BAD_ROW = 123


def rows(kind="csr"):
    rng = np.random.default_rng(0)
    X = sp.random(
        N,
        D,
        0.2,
        format="csr",
        random_state=rng,
        data_rvs=lambda k: rng.integers(1, 9, k).astype(float),
    )
    return X.asformat(kind)


def index_beyond(X):
    X.indices[X.indptr[BAD_ROW] + 1] = 100_000


def index_just_beyond(X):
    X.indices[X.indptr[BAD_ROW + 1] - 1] = D if X.format == "csr" else N


def index_negative(X):
    X.indices[X.indptr[BAD_ROW]] = -7


def indptr_beyond(X):
    X.indptr[BAD_ROW + 1 :] = 10**6


def indptr_falls(X):
    X.indptr[BAD_ROW + 1] = 0


def indptr_negative(X):
    X.indptr[BAD_ROW] = -5


def indptr_begins_late(X):
    X.indptr[0] = 3


def indptr_too_short(X):
    X.indptr = X.indptr[:-1]


def data_too_short(X):
    X.data = X.data[: len(X.data) // 2]


def shape_lies(X):
    X._shape = (N, 3)


def indices_are_floats(X):
    X.indices = X.indices + 0.5


DAMAGE = {
    "index beyond": index_beyond,
    "index just beyond": index_just_beyond,
    "index negative": index_negative,
    "indptr beyond": indptr_beyond,
    "indptr falls": indptr_falls,
    "indptr negative": indptr_negative,
    "indptr begins late": indptr_begins_late,
    "indptr too short": indptr_too_short,
    "data too short": data_too_short,
    "shape lies": shape_lies,
    "indices are floats": indices_are_floats,
}


def csc_index_beyond(X):
    X.indices[5] = 100_000


def csc_index_negative(X):
    X.indices[5] = -9


def csc_indptr_beyond(X):
    X.indptr[7:] = 10**6


def coo_column_beyond(X):
    X.col[9] = 100_000


def coo_row_negative(X):
    X.row[9] = -3


def bsr_index_beyond(X):
    X.indices[2] = 100_000


def dia_offsets_missing(X):
    X.offsets = np.append(X.offsets, 7)


OTHERS = {
    "csc index beyond": ("csc", csc_index_beyond),
    "csc index negative": ("csc", csc_index_negative),
    "csc indptr beyond": ("csc", csc_indptr_beyond),
    "coo column beyond": ("coo", coo_column_beyond),
    "coo row negative": ("coo", coo_row_negative),
    "bsr index beyond": ("bsr", bsr_index_beyond),
    "dia offsets": ("dia", dia_offsets_missing),
}


def damaged():
    """Pairs of a name and a damaged matrix."""
    for name, damage in DAMAGE.items():
        X = rows()
        damage(X)
        yield name, X
    for name, (kind, damage) in OTHERS.items():
        X = rows(kind)
        damage(X)
        yield name, X


def said(work, *args, **kwargs):
    """What is said; an answer is none."""
    try:
        work(*args, **kwargs)
    except (ValueError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def predicted(model, X):
    return model.predict(X).compute()


def memory():
    y = np.arange(N) % 2
    model = daskglm.fit(rows(), y)
    for name, X in damaged():
        yield f"fit, {name}", said(daskglm.fit, X, y)
        yield f"path, {name}", said(daskglm.fit, X, y, C=[0.1, 1.0], sample_weight=np.ones(N))
        yield f"predict, {name}", said(model.predict, X)
        yield f"score, {name}", said(model.score, X, y)
    for name in ("index beyond", "indptr falls"):
        X = rows()
        DAMAGE[name](X)
        yield f"cv, {name}", said(daskglm.LogisticRegressionCV(Cs=2, cv=2).fit, X, y)


def dask_faces():
    import dask
    import dask.array as da
    from distributed import Client

    y = np.arange(2 * N) % 2
    sound = rows()
    model = daskglm.fit(sound, y[:N])
    lazy_y = da.from_array(y, chunks=N)

    def chunked(X, cut):
        parts = [sound, X]
        whole = [
            da.from_delayed(dask.delayed(part), (N, D), dtype=float, meta=sp.csr_matrix((0, 0)))
            for part in parts
        ]
        if cut:  # each part twice, beside each other
            whole = [da.concatenate([part, part], axis=1) for part in whole]
        return da.concatenate(whole)

    for name, X in damaged():
        yield f"dask fit, {name}", said(daskglm.fit, chunked(X, False), lazy_y)
        yield f"dask fit cut, {name}", said(daskglm.fit, chunked(X, True), lazy_y)
        yield f"dask predict, {name}", said(predicted, model, chunked(X, False))
        parts = [dask.delayed(part) for part in (sound, X)]
        labels = [dask.delayed(y[:N])] * 2
        yield f"delayed fit, {name}", said(daskglm.fit, parts, labels, out_of_core=True)
    with Client(
        processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None
    ) as client:
        for name, X in damaged():
            yield f"cluster fit, {name}", said(daskglm.fit, X, y[:N], client=client)
        for name in ("index beyond", "indptr falls"):
            X = rows()
            DAMAGE[name](X)
            yield (
                f"cluster dask fit, {name}",
                said(daskglm.fit, chunked(X, False), lazy_y, client=client),
            )


def device():
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "twin"))
    import cupy
    from cupyx.scipy.sparse import csr_matrix

    y = np.arange(N) % 2
    model = daskglm.fit(rows(), y)
    for name, damage in DAMAGE.items():
        if name in ("indptr too short", "shape lies", "indices are floats", "data too short"):
            continue  # the stand-in makes a matrix of SciPy to tell what it holds
        host = rows()
        damage(host)
        X = csr_matrix(
            tuple(cupy.asarray(part) for part in (host.data, host.indices, host.indptr)),
            shape=host.shape,
        )
        yield f"device fit, {name}", said(daskglm.fit, X, y)
        yield f"device predict, {name}", said(model.predict, X)


if __name__ == "__main__":
    print(json.dumps(dict({"memory": memory, "dask": dask_faces, "device": device}[sys.argv[1]]())))
