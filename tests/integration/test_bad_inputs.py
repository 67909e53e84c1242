"""Every bad input of `tests/integration/bad_inputs.py` at every face: the error, what it says, and that nothing is left behind."""

import ast
import copy
import pathlib
import re
import time
import warnings

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import daskglm
from tests.conftest import make_problem
from tests.integration.bad_inputs import (
    ARGUMENTS,
    CHUNK,
    DATA,
    LAZILY,
    LOSSES,
    NAMES,
    PREDICTIONS,
    SAVING,
    TARGETS,
    D,
    N,
)

X0, Y0 = make_problem(N, D)
LOADED = []  # for each chunk that was computed, the number of the test that it is of
CURRENT = [0]  # that of this test
SECONDS = 10.0  # of this process's processors for a refusal, kernels being compiled
TIDY_SECONDS = 60.0  # in which workers tell that they have let go, on a busy machine


def counted(part, test):
    LOADED.append(test)
    return part


def tail(S, first):
    """The last rows of a CSR matrix, made without a look at its indices."""
    lo, part = S.indptr[first], sp.csr_matrix((S.shape[0] - first, S.shape[1]))
    part.data, part.indices, part.indptr = S.data[lo:], S.indices[lo:], S.indptr[first:] - lo
    return part


def as_array(values):
    if values is None or not hasattr(values, "shape") or hasattr(values, "__dask_graph__"):
        return values
    if sp.issparse(
        values
    ):  # chunks that nobody has cut out of the whole, which would follow indices
        parts = [dask.delayed(values[a : a + CHUNK]) for a in (0, CHUNK)] + [
            dask.delayed(tail(values, 2 * CHUNK))
        ]
        return da.concatenate(
            [da.from_delayed(part, (CHUNK, D), float, sp.csr_matrix((0, 0))) for part in parts]
        )
    rest = values.shape[1:]
    whole = da.from_array(values, chunks=(CHUNK, *rest), asarray=False)
    return whole.map_blocks(counted, CURRENT[0], dtype=whole.dtype, meta=whole._meta)


def as_frame(values):
    if values is None or not hasattr(values, "shape"):
        return values
    if isinstance(values, np.ndarray):
        values = (
            pd.Series(values) if values.ndim == 1 else pd.DataFrame(values, columns=list("abcd"))
        )
    whole = dd.from_pandas(values, npartitions=N // CHUNK)
    return whole.map_partitions(counted, CURRENT[0], meta=whole._meta)


def delayed(values):
    return (
        None
        if values is None
        else [dask.delayed(values[a : a + CHUNK]) for a in range(0, N, CHUNK)]
    )


def estimator(arguments, loss):
    cls = {"logistic": daskglm.LogisticRegression, "squared": daskglm.Ridge}.get(
        loss, daskglm.LinearSVC
    )
    return cls(**arguments)


def fitted():
    return daskglm.LogisticRegression().fit(X0, Y0)


def scored(given):
    return daskglm.Ridge().fit(X0, Y0) if given.get("loss") == "squared" else fitted()


def named():
    return daskglm.LogisticRegression().fit(pd.DataFrame(X0, columns=list("abcd")), Y0)


FACES = {
    "fit": lambda X, y, w, given, client: daskglm.fit(X, y, sample_weight=w, **given),
    "array": lambda X, y, w, given, client: daskglm.fit(
        *map(as_array, (X, y)), sample_weight=as_array(w), **given
    ),
    "frame": lambda X, y, w, given, client: daskglm.fit(
        *map(as_frame, (X, y)), sample_weight=as_frame(w), **given
    ),
    "no columns": lambda X, y, w, given, client: daskglm.fit(sp.csr_matrix((N, 0)), y, **given),
    "client": lambda X, y, w, given, client: daskglm.fit(
        X, y, sample_weight=w, **{"client": client, **given}
    ),
    "cluster": lambda X, y, w, given, client: daskglm.fit(
        *map(as_array, (X, y)), sample_weight=as_array(w), **{"client": client, **given}
    ),
    "estimator": lambda X, y, w, given, client: estimator(
        {name: value for name, value in given.items() if name != "loss"},
        given.get("loss", "logistic"),
    ).fit(X, y, w),
    "ridge": lambda X, y, w, given, client: daskglm.Ridge(**given).fit(X, y, w),
    "delayed": lambda X, y, w, given, client: daskglm.fit(
        delayed(X), delayed(y), sample_weight=delayed(w), out_of_core=True, **given
    ),
    "estimator lazy": lambda X, y, w, given, client: daskglm.LinearSVC(**given).fit(
        as_array(X), as_array(y)
    ),
    "cv": lambda X, y, w, given, client: daskglm.LogisticRegressionCV(Cs=2, cv=2, **given).fit(
        X, y, w
    ),
    "path": lambda X, y, w, given, client: daskglm.fit(
        X, y, sample_weight=w, **{"C": [0.1, 1.0], **given}
    ),
    "predict": lambda X, y, w, given, client: fitted().predict(X),
    "predict lazy": lambda X, y, w, given, client: fitted().predict(as_array(X)).compute(),
    "predict named": lambda X, y, w, given, client: named().predict_proba(X),
    "predict frame": lambda X, y, w, given, client: named().predict_proba(as_frame(X)).compute(),
    "score": lambda X, y, w, given, client: scored(given).score(X, y, w),
    "score lazy": lambda X, y, w, given, client: scored(given).score(*map(as_array, (X, y, w))),
    "save": lambda X, y, w, given, client: daskglm.save(
        **{"model": fitted(), "path": "model.json", **given}
    ),
    "load": lambda X, y, w, given, client: daskglm.load(**given),
}
LAZY = ("score lazy", "delayed", "array", "frame", "cluster", "predict lazy", "predict frame")


def of_any_loss(row):
    return row.id.startswith(("X ", "weight")) and {"fit", "array"} <= set(row.faces)


def of_partitions(row):
    """Whether a row is wrong within a partition, however rows are cut."""
    return "{row 217}" in row.says and "index" not in row.id and not row.id.startswith("target")


def cases(rows, faces=None, **more):
    for row in rows:
        for face in faces or row.faces:
            yield pytest.param(row, face, more, id=", ".join((row.id, face, *more.values())))


@pytest.fixture(scope="module")
def running():
    """A client of a cluster in this process, and its scheduler; the kernels that refusals need are compiled."""
    from distributed import Client, LocalCluster

    for dtype in (np.float32, np.float64):
        for rows in (X0.astype(dtype), sp.csr_matrix(X0.astype(dtype))):
            daskglm.fit(rows, Y0).predict(rows)
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client, cluster.scheduler


def same(before, after):
    """Whether a user's data are as they were."""
    if sp.issparse(before):
        return all(
            np.array_equal(getattr(before, a), getattr(after, a))
            for a in ("data", "indices", "indptr")
        )
    if isinstance(before, (pd.DataFrame, pd.Series)):
        return before.equals(after)
    if isinstance(before, np.ma.MaskedArray):
        return np.array_equal(before.data, after.data) and np.array_equal(before.mask, after.mask)
    if isinstance(before, np.ndarray) and before.dtype.kind in "fcmM":
        return before.dtype == after.dtype and np.array_equal(before, after, equal_nan=True)
    if isinstance(before, np.ndarray):
        return (
            before.dtype == after.dtype and before.tolist().__repr__() == after.tolist().__repr__()
        )
    return repr(before) == repr(after)


def copied(values):
    return (
        values
        if hasattr(values, "__next__") or hasattr(values, "__dask_graph__")
        else copy.deepcopy(values)
    )


def says(row, face):
    place = f"partition {217 // CHUNK}, row {217 % CHUNK}" if face in LAZY else "row 217"
    return row.says.replace("{row 217}", place)


@pytest.mark.parametrize(
    ("row", "face", "more"),
    [
        *cases(ARGUMENTS),
        *cases(NAMES),
        *cases(DATA),
        *cases(LAZILY),
        *cases(
            [row._replace(faces=tuple(f for f in row.faces if f != "cv")) for row in TARGETS],
            loss="squared",
        ),
        *(
            case
            for loss in LOSSES
            for case in cases(
                [row for row in DATA if of_any_loss(row)], ("fit", "array"), loss=loss
            )
        ),
        *cases([row for row in [*DATA, *TARGETS] if of_partitions(row)], ("delayed",)),
        *cases(PREDICTIONS),
        *cases(SAVING),
    ],
)
def test_bad_inputs_are_refused_by_name_or_place(row, face, more, running):
    client, scheduler = running
    if isinstance(row.given, dict):
        X, y, w, given = X0, Y0, None, row.given
    else:
        X, y, w = row.given(X0, Y0, None)
        given = {}
    before, there = tuple(map(copied, (X, y, w))), set(scheduler.tasks)
    CURRENT[0] += 1  # threads may still load chunks of the last test
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        began = time.process_time()
        with pytest.raises(row.error) as told:
            FACES[face](X, y, w, {**given, **more}, client)
        assert time.process_time() - began < SECONDS
    message = f"{told.value}"
    assert re.search(says(row, face), message, re.DOTALL), f"{type(told.value).__name__}: {message}"
    assert not warned, [str(warning.message) for warning in warned]
    if isinstance(row.given, dict) and not row.loads:
        assert CURRENT[0] not in LOADED, "data were loaded before an argument was refused"
    assert all(
        same(was, now)
        for was, now in zip(before, (X, y, w), strict=True)
        if not hasattr(now, "__next__")
    )
    deadline = time.monotonic() + TIDY_SECONDS
    while (
        set(scheduler.tasks) - there and time.monotonic() < deadline
    ):  # the error is alive here, as in a notebook
        time.sleep(0.02)
    assert not set(scheduler.tasks) - there, "tasks are left on the scheduler"


def test_the_table_is_large_and_its_rows_have_names_of_their_own():
    rows = [*ARGUMENTS, *NAMES, *DATA, *LAZILY, *TARGETS, *PREDICTIONS, *SAVING]
    assert len({row.id for row in rows}) == len(rows)
    assert len(rows) >= 300
    assert {"delayed"} | {face for row in rows for face in row.faces} == set(FACES)


# Messages of files and kernels that are shown behind a file's name or another message.
WITHIN_ANOTHER = {
    "data/npz.py",
    "fitting/checkpoint_schema.py",
    "fitting/schema.py",
    "fitting/config.py",
    "losses/dispatch.py",
}


def test_each_error_names_the_value_or_the_argument_that_is_wrong():
    package = pathlib.Path(daskglm.__file__).parent
    vague = []
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).as_posix() in WITHIN_ANOTHER:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)):
                continue
            if getattr(node.exc.func, "id", "") not in ("ValueError", "TypeError"):
                continue
            parts = list(ast.walk(node.exc))
            text = "".join(str(part.value) for part in parts if isinstance(part, ast.Constant))
            computed = any(isinstance(part, (ast.FormattedValue, ast.Call)) for part in parts[1:])
            named = re.search(
                r"\w=|\b(X|y|path|cv|sample_weight|topology|model|penalty|weights|device|resume|np.matrix)\b",
                text,
            )
            if not (computed or named):
                vague.append(f"{path.name}:{node.lineno} {text}")
    assert not vague
