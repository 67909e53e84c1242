import bz2
import gzip
import lzma
import os
import pickle
from pathlib import Path

import dask
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from daskglm.data import svmlight
from daskglm.data.svmlight import read_svmlight
from tests.conftest import SHARED
from tests.covering import each_choice


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = sp.random(57, 9, density=0.4, format="csr", random_state=1)
    X.data = X.data.round(6)  # the writer keeps 16 digits only
    return X, rng.choice([-1.0, 1.0], 57)


@pytest.fixture
def path(data, tmp_path):
    path = tmp_path / "train.svm"
    dump_svmlight_file(*data, str(path), zero_based=False)
    return path


def together(X, y):
    """All rows, and that every chunk is what the array says it is."""
    parts = dask.compute(*zip(X.to_delayed().ravel(), y.to_delayed().ravel(), strict=True))
    for Xi, yi in parts:
        assert isinstance(Xi, sp.csr_matrix)
        assert Xi.indices.dtype == Xi.indptr.dtype == np.int32
        assert Xi.dtype == X.dtype
        assert Xi.shape == (len(yi), X.shape[1])
        assert yi.dtype == np.float64
    return sp.vstack([Xi for Xi, _ in parts]).toarray(), np.concatenate([yi for _, yi in parts])


def check(X, y, expected):
    rows, targets = together(X, y)
    np.testing.assert_array_equal(rows, expected[0].toarray())
    np.testing.assert_array_equal(targets, expected[1])


@each_choice
@pytest.mark.parametrize("blocksize", [1, 7, 64, 65, 100, 1000, "1KiB", "64MiB", None])
@pytest.mark.parametrize("how", ["pass", "known"])
def test_agrees_with_sklearn(path, blocksize, how):
    if blocksize == 1:  # one task for each byte: most ranges are empty
        path.write_bytes(b"\n".join(path.read_bytes().split(b"\n")[3:8]))
    known = {} if how == "pass" else {"n_features": 9, "zero_based": False}
    X, y = read_svmlight(path, blocksize=blocksize, **known)
    check(X, y, load_svmlight_file(str(path), n_features=X.shape[1], zero_based=False))
    assert np.isnan(X.shape[0]) == np.isnan(y.shape[0]) == (how == "known")


@each_choice
@pytest.mark.parametrize("change", ["no newline", "crlf", "blank lines", "comments", "qid"])
@pytest.mark.parametrize("blocksize", [50, 1000])
def test_variants_of_lines(path, change, blocksize):
    lines = [line for line in path.read_bytes().split(b"\n") if line and not line.startswith(b"#")]
    content = {
        "no newline": b"\n".join(lines),
        "crlf": b"\r\n".join(lines) + b"\r\n",
        "blank lines": b"\n\n" + b"\n\n".join(lines) + b"\n \n",
        "comments": b"# head\n" + b" # of 1:2\n".join(lines) + b"\n# tail",
        "qid": b"\n".join(line.replace(b" ", b" qid:3 ", 1) for line in lines),
    }[change]
    path.write_bytes(content)
    check(*read_svmlight(path, blocksize=blocksize), load_svmlight_file(str(path)))


@pytest.mark.parametrize(("extension", "module"), [("gz", gzip), ("bz2", bz2), ("xz", lzma)])
def test_compressed_files_are_one_chunk(path, data, extension, module):
    packed = path.with_name(f"train.svm.{extension}")
    packed.write_bytes(module.compress(path.read_bytes()))
    X, y = read_svmlight(packed, blocksize=100)
    assert X.npartitions == 1
    check(X, y, load_svmlight_file(str(path)))


def test_globs_and_lists(tmp_path, data):
    X, y = data
    for i, run in enumerate([slice(0, 20), slice(20, 21), slice(21, 57)]):
        dump_svmlight_file(X[run], y[run], str(tmp_path / f"part-{i}.svm"), zero_based=False)
    (tmp_path / "part-3.svm").touch()
    check(*read_svmlight(str(tmp_path / "part-*.svm"), blocksize=300), data)
    check(*read_svmlight([tmp_path / "part-0.svm", tmp_path / "part-[123].svm"]), data)
    chunks = read_svmlight(str(tmp_path / "part-*.svm"))[0].chunks
    assert chunks == ((20, 1, 36, 0), (9,))


def test_dtype(path):
    X, y = read_svmlight(path, dtype="float32", blocksize=100)
    assert X.dtype == np.float32
    check(X, y, load_svmlight_file(str(path), dtype=np.float32))


@pytest.mark.parametrize(
    ("lines", "zero_based", "columns"),
    [
        ("1 0:1 2:5\n-1 1:1\n", "auto", 3),
        ("1 1:1 2:5\n-1 1:1\n", "auto", 2),
        ("1 1:1 2:5\n-1\n", True, 3),
    ],
)
def test_zero_based(tmp_path, lines, zero_based, columns):
    path = tmp_path / "a.svm"
    path.write_text(lines)
    # the second line alone would look one-based: what counts is the whole file
    X, y = read_svmlight(path, blocksize=6, zero_based=zero_based)
    assert X.shape == (2, columns)
    assert together(X, y)[0][0, -1] == 5


def test_rows_without_features(tmp_path):
    path = tmp_path / "a.svm"
    path.write_text("1\n-1\n")
    X, y = read_svmlight(path)
    assert X.shape == (2, 1)
    np.testing.assert_array_equal(together(X, y)[1], [1, -1])


def test_text_is_parsed_once_for_X_and_y(path, monkeypatch):
    calls = []
    parse = svmlight._parse
    monkeypatch.setattr(svmlight, "_parse", lambda *args: calls.append(args) or parse(*args))
    X, y = read_svmlight(path, blocksize=300, n_features=9, zero_based=False)
    assert not calls
    together(X, y)
    assert len(calls) == X.npartitions > 3


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("1 1:x", "could not convert"),
        ("a 1:1", "could not convert"),
        ("1 3", "index:value"),
        ("1 3:1 2:1", "increase"),
        ("1 2:1 2:1", "increase"),
        ("1 -4:1", "Invalid index -4"),
        ("1 4000000000:1", "too large"),
        ("1 10:1", "n_features=9"),
        ("1 0:1", "Invalid index 0"),
    ],
)
@pytest.mark.parametrize("blocksize", [40, 333, None])
def test_bad_lines_are_named(path, bad, reason, blocksize):
    lines = path.read_text().split("\n")
    lines[41] = bad
    path.write_text("\n".join(lines))
    X, y = read_svmlight(path, blocksize=blocksize, n_features=9, zero_based=False)
    with pytest.raises(ValueError, match=rf"train\.svm, line 42: .*{reason}.*: '{bad}'"):
        dask.compute(X, y)


def test_bad_lines_are_named_by_the_pass(path):
    lines = path.read_text().split("\n")
    lines[30] = "1 " + "1:y" * 200
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match="line 31: ") as error:
        read_svmlight(path, blocksize=100)
    assert len(str(error.value)) < 500
    lines[30] = "1 12:1"
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match="line 31: an index is beyond n_features=9: '1 12:1'"):
        read_svmlight(path, blocksize=100, n_features=9)


def test_compressed_bad_line(path):
    packed = path.with_name("bad.svm.gz")
    packed.write_bytes(gzip.compress(path.read_bytes() + b"oops 1:1\n"))
    number = path.read_bytes().count(b"\n") + 1
    with pytest.raises(ValueError, match=rf"bad\.svm\.gz, line {number}: "):
        read_svmlight(packed)


def test_missing_and_empty_files(tmp_path):
    for missing in ("none.svm", "none-*.svm"):
        with pytest.raises(FileNotFoundError, match="none"):
            read_svmlight(tmp_path / missing)
    (tmp_path / "a.svm").touch()
    with pytest.raises(ValueError, match="empty"):
        read_svmlight(tmp_path / "a.svm")
    (tmp_path / "a.svm").write_text("# only a comment\n\n")
    with pytest.raises(ValueError, match="no rows"):
        read_svmlight(tmp_path / "a.svm")
    with pytest.raises(ValueError, match="folder"):
        read_svmlight(tmp_path)
    with pytest.raises(ValueError, match="empty list"):
        read_svmlight([])


@pytest.mark.parametrize(
    "wrong",
    [
        {"dtype": "int32"},
        {"zero_based": "yes"},
        {"n_features": 0},
        {"n_features": 1.5},
        {"blocksize": 0},
    ],
)
def test_arguments_are_checked(path, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        read_svmlight(path, **wrong)


@each_choice
@pytest.mark.parametrize(
    "known", [{}, {"n_features": 9, "zero_based": False}], ids=["pass", "known"]
)
@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_what_works_on_sparse_chunks(path, data, known, scheduler):
    w = np.arange(9.0)
    with dask.config.set(scheduler=scheduler):
        X, y = pickle.loads(
            pickle.dumps(read_svmlight(path, blocksize=30, **known))
        )  # empty ranges among them
        assert X.npartitions > len(data[1])
        for whole in (X.compute(), X.persist().compute(), (2 * X).compute() / 2, X.T.compute().T):
            assert sp.issparse(whole)
            np.testing.assert_array_equal(whole.toarray(), data[0].toarray())
        np.testing.assert_array_equal(y.compute(), data[1])
        product = X.map_blocks(
            lambda block: block @ w, dtype=X.dtype, drop_axis=1, meta=np.empty(0)
        )
        np.testing.assert_allclose(product.compute(), data[0] @ w)
        if not known:
            np.testing.assert_array_equal(X[5:20].compute().toarray(), data[0][5:20].toarray())


def test_other_file_systems(path, data):
    import fsspec

    fs = fsspec.filesystem("memory")
    try:
        fs.pipe("/svmlight-test/a.svm", path.read_bytes())
        fs.pipe("/svmlight-test/b.svm.bz2", bz2.compress(path.read_bytes()))
        X, y = read_svmlight("memory://svmlight-test/*", blocksize=200)
        check(X, y, (sp.vstack([data[0]] * 2), np.tile(data[1], 2)))
        with pytest.raises(FileNotFoundError, match="svmlight-test/c"):
            read_svmlight("memory://svmlight-test/c*")
    finally:
        fs.rm("/svmlight-test", recursive=True)


@pytest.mark.slow
def test_real_set(tmp_path):
    packed = Path(os.environ.get("DASKGLM_DATA", SHARED)) / "libsvm_classic" / "a9a.bz2"
    if not packed.exists():
        pytest.skip("the folder of real data sets (../shared/data, or DASKGLM_DATA) is not here")
    plain = tmp_path / "a9a.svm"
    plain.write_bytes(bz2.decompress(packed.read_bytes()))
    expected = load_svmlight_file(str(plain))
    for source, chunks in ((packed, 1), (plain, 9)):
        X, y = read_svmlight(source, blocksize="256KiB")
        assert (X.shape, X.npartitions) == ((32561, 123), chunks)
        check(X, y, expected)


@pytest.mark.slow
def test_on_a_cluster(path, data, client):
    check(*read_svmlight(path, blocksize=500), data)
