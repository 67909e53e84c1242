"""Sparse matrices: indices are checked before anything follows them, and values are summed as floats."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import daskglm
from daskglm.data.blocks import Place, to_block
from daskglm.data.sparse_rows import canonical
from tests.data.damaged_sparse import BAD_ROW

PLACES = {
    "index beyond": rf"row {BAD_ROW}.*column index 100,000.*50 columns",
    "index just beyond": rf"row {BAD_ROW}.*column index 50.*50 columns",
    "index negative": rf"row {BAD_ROW}.*column index -7",
    "indptr beyond": rf"row {BAD_ROW}.*indptr goes from .* to 1,000,000",
    "indptr falls": rf"row {BAD_ROW}.*indptr goes from .* to 0",
    "indptr negative": rf"row {BAD_ROW - 1}.*indptr goes from .* to -5",
    "indptr begins late": r"row 0 of X.*indptr goes from 3",
    "indptr too short": r"indptr has 400 numbers for 400 rows",
    "data too short": r"row \d+.*indptr goes from .* values stored",
    "shape lies": r"row \d+.*column index \d+.*3 columns|inconsistent|X has 3 features|has 3 columns",
    "indices are floats": r"indices has dtype float64",
    "csc index beyond": r"column \d+.*row index 100,000.*400 rows",
    "csc index negative": r"column \d+.*row index -9",
    "csc indptr beyond": r"column 6.*indptr goes from .* to 1,000,000",
    "coo column beyond": r"row \d+.*column index 100,000.*50 columns",
    "coo row negative": r"row index -3.*400 rows",
    "bsr index beyond": r"block row \d+.*block column index 100,000",
    "dia offsets": r"offsets for data of shape",
}


def answers(face):
    root = Path(__file__).resolve().parents[2]
    ended = subprocess.run(
        [sys.executable, "-m", "tests.data.damaged_sparse", face],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert ended.returncode == 0, f"ended with {ended.returncode}: {ended.stderr[-2000:]}"
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.parametrize("face", ["memory", pytest.param("dask", marks=pytest.mark.slow), "device"])
@pytest.mark.slow
def test_damaged_indices_are_named_and_end_no_process(face):
    import re

    if face == "device" and not (shutil.which("g++") or shutil.which("c++")):
        pytest.skip("no C++ compiler for the stand-in for CuPy")
    said = answers(face)
    assert len(said) > 10
    wrong = {
        case: text
        for case, text in said.items()
        if not re.search(PLACES[case.split(", ")[1]], text)
    }
    assert not wrong, json.dumps(wrong, indent=1)
    lazily = {case: text for case, text in said.items() if "dask" in case or "delayed" in case}
    assert all(
        "partition 1" in text
        for case, text in lazily.items()
        if "cut" not in case and "lies" not in case
    )


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sound_matrices_keep_their_arrays(index):
    X = sp.random(200, 30, 0.2, format="csr", random_state=0)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    rows = canonical(X, Place())
    assert (rows != X).nnz == 0
    assert np.shares_memory(rows.data, X.data)
    if index == np.int32:
        assert np.shares_memory(rows.indices, X.indices)


def test_a_false_flag_of_the_matrix_is_not_believed():
    X = sp.csr_matrix((np.ones(4), [3, 1, 1, 1], [0, 2, 4]), shape=(2, 4))
    X.has_canonical_format = True
    rows = canonical(X, Place())
    np.testing.assert_array_equal(rows.indices, [1, 3, 1])
    np.testing.assert_array_equal(rows.data, [1, 1, 2])


def test_values_beyond_the_last_row_are_left_out():
    X = sp.csr_matrix((np.ones(4), [0, 1, 2, 1], [0, 2, 4]), shape=(2, 3))
    X.data, X.indices = np.append(X.data, np.nan), np.append(X.indices, 99).astype(np.int32)
    block = to_block(X, [0, 1], place=Place(), classify=True)
    assert block.facts.nonzeros == 4


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.float16, np.float32, bool])
def test_values_of_one_place_are_summed_as_floats(kind, dtype):
    if dtype == np.float16 and kind != "csr":
        return  # SciPy makes no such matrices
    made = {
        "csr": lambda d, i, j: sp.csr_matrix((d, j, [0, 3, 6]), shape=(2, 2)),
        "csc": lambda d, i, j: sp.csc_matrix((d, j, [0, 3, 6]), shape=(2, 2)).T.tocsc().T,
        "coo": lambda d, i, j: sp.coo_matrix((d, (i, j)), shape=(2, 2)),
        "bsr": lambda d, i, j: sp.bsr_matrix((d.reshape(-1, 1, 1), j, [0, 3, 6]), shape=(2, 2)),
    }[kind]
    data = np.full(6, 1 if dtype is bool else 100).astype(dtype)
    if kind == "csr" and dtype == np.float16:
        X = sp.csr_matrix((data.astype(np.float32), [0, 0, 1, 1, 1, 1], [0, 3, 6]), shape=(2, 2))
        X.data = data
    else:
        X = made(data, np.repeat([0, 1], 3), np.array([0, 0, 1, 1, 1, 1]))
    before = X.data.copy()
    rows = canonical(X, Place()).toarray()
    expected = np.array([[1, 1], [0, 1]]) if dtype is bool else np.array([[200, 100], [0, 300]])
    np.testing.assert_array_equal(rows, expected.T if kind == "csc" else expected)
    np.testing.assert_array_equal(X.data, before)
    assert X.data.dtype == dtype


def test_sparse_arrays_of_one_dimension_are_refused():
    with pytest.raises(ValueError, match="X has 1 dimension"):
        daskglm.fit(sp.coo_array(np.ones(5)), np.arange(5) % 2)
