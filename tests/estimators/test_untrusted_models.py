"""Model files from anybody: refused by their sizes, headers and fields before what they announce is read or made."""

import io
import json
import os
import tracemalloc
import zipfile

import numpy as np
import pytest

from daskglm.data import npz
from daskglm.estimators.logistic import LogisticRegression
from daskglm.estimators.persistence import load, save
from daskglm.estimators.ridge import Ridge
from daskglm.fitting import schema
from tests.conftest import make_problem

LITTLE = 8 << 20  # bytes that a refusal may take: that of imports and messages


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.json"
    save(LogisticRegression(C=0.3).fit(*make_problem(80, 4)), path)
    return path.read_text()


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """Content of a model with arrays beside it."""
    path = tmp_path_factory.mktemp("wide") / "m.json"
    save(Ridge(C=0.1, tol=1e-3).fit(*make_problem(30, 12_000, loss="squared")), path)
    return path.read_text(), path.with_name("m.json.npz").read_bytes()


def refused(path, text, *words):
    """Whatever was written to a file, `load` refuses it by a ValueError that names it, with few bytes."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    tracemalloc.start()
    try:
        with pytest.raises(ValueError) as caught:
            load(path)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    message = str(caught.value)
    assert str(path) in message
    assert message.isprintable(), repr(message)
    for word in words:
        assert word in message, message
    return most


def changed(content, **changes):
    return json.dumps({**json.loads(content), **changes})


# ---- bombs
def test_a_declared_width_of_labels_is_not_made(content, tmp_path):
    text = changed(content, classes={"dtype": "<U100000000", "values": ["a", "b"]})
    (tmp_path / "m.json").write_text(text)
    tracemalloc.start()
    model = load(tmp_path / "m.json")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.classes_.dtype == "<U1"
    assert most < LITTLE
    for dtype in (
        "<U" + "9" * 30,
        "(100000,100000)<f8",
        "<f8,<f8",
        "V1000000000",
        "O",
        "<U",
        ["<f8"],
        {"a": 1},
        None,
        8,
    ):
        text = changed(content, classes={"dtype": dtype, "values": ["a", "b"]})
        assert refused(tmp_path / "m.json", text, "labels of dtype") < LITTLE


def member(shape, compression=zipfile.ZIP_DEFLATED, declared=None, names=("coef", "intercept")):
    """An .npz with arrays of zeros, of which the headers may declare another shape."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as held:
        for name in names:
            made = io.BytesIO()
            np.save(made, np.zeros(shape))
            data = made.getvalue()
            if declared is not None:
                header = io.BytesIO()
                np.lib.format.write_array_header_1_0(
                    header, {"descr": "<f8", "fortran_order": False, "shape": declared}
                )
                data = header.getvalue() + data[-8 * int(np.prod(shape)) :]
            held.writestr(f"{name}.npy", data)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("bomb", "word"),
    [
        (lambda: member((4_000_000,)), "compressed"),
        (lambda: member((12_000,)), "compressed"),
        (lambda: member((1000,), zipfile.ZIP_STORED), "shape (1000,)"),
        (lambda: member((1000,), zipfile.ZIP_STORED, (12_000,)), "declares"),
        (lambda: member((1000,), zipfile.ZIP_STORED, (10**12,)), "declares"),
        (lambda: member((1000,), zipfile.ZIP_STORED, (-1, 10**3)), "declares"),
        (lambda: member((10,), zipfile.ZIP_STORED, names=("coef",)), "coef of shape (10,)"),
        (
            lambda: member((1,), zipfile.ZIP_STORED, names=[f"a{k}" for k in range(100)]),
            "100 arrays",
        ),
        (lambda: b"PK\x05\x06" + bytes(18), "holds nothing"),
        (lambda: b"", "no whole .npz"),
    ],
    ids=[
        "4e6 zeros",
        "compressed",
        "short",
        "says 12,000",
        "says 1e12",
        "negative",
        "one",
        "many",
        "empty",
        "no bytes",
    ],
)
def test_arrays_beside_are_refused_by_their_headers(bomb, word, wide, tmp_path):
    (tmp_path / "m.json.npz").write_bytes(bomb())
    assert refused(tmp_path / "m.json", wide[0], "m.json.npz", word) < LITTLE


def test_an_array_that_is_stored_once_and_listed_often(wide, tmp_path):
    """Entries of a zip file may point to the same bytes: their sum is more than the file has."""
    data = bytearray(member((12_000,), zipfile.ZIP_STORED, names=("coef",)))
    end = data.rindex(b"PK\x05\x06")
    start = data.index(b"PK\x01\x02")
    entry = bytes(data[start:end])
    tail = bytearray(data[end:])
    copies = b"".join(entry.replace(b"coef.npy", b"co%02d.npy" % k) for k in range(30))
    tail[8:10] = tail[10:12] = (30).to_bytes(2, "little")
    tail[12:16] = len(copies).to_bytes(4, "little")
    (tmp_path / "m.json.npz").write_bytes(bytes(data[:start]) + copies + bytes(tail))
    refused(tmp_path / "m.json", wide[0], "m.json.npz")


def test_json_is_no_larger_than_what_it_declares(content, tmp_path):
    text = content + " " * (schema.MOST_BYTES + 4 * schema.BYTES_A_FEATURE)
    assert (
        refused(tmp_path / "m.json", text, "more than the 4,198,400 bytes") < 3 * schema.MOST_BYTES
    )
    text = changed(content, n_features=10**12)  # that much could be read, and is not there
    assert refused(tmp_path / "m.json", text, "coef") < LITTLE
    deep = "[" * 100_000
    assert refused(tmp_path / "m.json", deep, "is not a daskglm model") < LITTLE
    assert (
        refused(tmp_path / "m.json", '{"format": "daskglm-model", "version": 1' + "0" * 5000 + "}")
        < LITTLE
    )
    with open(tmp_path / "m.json", "wb") as file:  # with a hole: takes no room on the disk
        file.truncate(1 << 40)
    with pytest.raises(ValueError, match="more than the"):
        load(tmp_path / "m.json")


# ---- pipes, devices, folders
def test_what_is_no_file_is_refused_and_nothing_hangs(content, wide, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "pipe", tmp_path / "folder", "/dev/zero", "/dev/full"):
        with pytest.raises(ValueError, match="a folder, a pipe or a device"):
            load(path)
        with pytest.raises(ValueError, match="a folder, a pipe or a device, not a file"):
            save(LogisticRegression().fit(*make_problem(60, 2)), path)
    assert (tmp_path / "pipe").is_fifo()
    os.mkfifo(tmp_path / "m.json.npz")
    refused(tmp_path / "m.json", wide[0], "m.json.npz", "a folder, a pipe or a device")
    (tmp_path / "m.json.npz").unlink()
    (tmp_path / "m.json.npz").mkdir()
    refused(tmp_path / "m.json", wide[0], "m.json.npz", "a folder, a pipe or a device")


# ---- fields
def params(**values):
    return lambda content: {"params": {**content["params"], **values}}


def report(**values):
    return lambda content: {"report": {**content["report"], **values}}


def classes(dtype, *values):
    return lambda content: {"classes": {"dtype": dtype, "values": list(values)}}


ESC = "\x1b]0;owned\x07"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (params(C=-1.0), "'C'|C=-1.0"),
        (params(C=0), "C=0"),
        (params(C="1"), "'C'"),
        (params(C=True), "'C'"),
        (params(C={"float": "nan"}), "C=nan"),
        (params(C={"float": "1e5"}), "no value"),
        (params(C=[1.0]), "'C'"),
        (params(tol=True), "'tol'"),
        (params(tol=-1.0), "'tol'"),
        (params(tol={"float": "inf"}), "'tol'"),
        (params(max_iter=True), "'max_iter'"),
        (params(max_iter=-1), "max_iter"),
        (params(max_iter=1.5), "'max_iter'"),
        (params(fit_intercept="no"), "'fit_intercept'"),
        (params(warm_start=3), "'warm_start'"),
        (params(random_state=True), "'random_state'"),
        (params(solver="evil"), "solver"),
        (params(solver=ESC), "'solver'"),
        (params(device="tpu"), "device"),
        (params(class_weight={"items": [[1, -1.0]]}), "class_weight"),
        (params(class_weight={"items": [[[1], 1.0]]}), "no value"),
        (params(class_weight={"items": 3}), "no value"),
        (params(class_weight={"items": [], "float": "nan"}), "no value"),
        (params(class_weight={"bogus": 1}), "no value"),
        (params(solver_options={"items": [["evil", 1]]}), "evil"),
        (report(relative_gap="0"), "relative_gap"),
        (report(relative_gap=-1.0), "relative_gap"),
        (report(converged=1), "converged"),
        (report(n_iter=True), "n_iter"),
        (report(n_iter=-1), "n_iter"),
        (report(n_rows=1.5), "n_rows"),
        (report(n_features=5), "5 features, the model of 4"),
        (report(solver=ESC), "'solver' of the report"),
        (report(why="a\nb"), "'why' of the report"),
        (report(reason="x\x9b2J"), "'reason' of the report"),
        (report(device="\u202ecpu"), "'device' of the report"),
        (report(extra=1), "extra"),
        (classes("<f8", 1.0, 1.0), "each once and in order"),
        (classes("<f8", 1.0, -1.0), "each once and in order"),
        (classes("<i8", 1, -1), "each once and in order"),
        (classes("<i8", 1, True), "do not fit"),
        (classes("|b1", 0, 1), "do not fit"),
        (classes("|i1", 1, 300), "do not fit"),
        (classes("|u1", -1, 1), "do not fit"),
        (classes("<f8", 1, 2), "do not fit"),
        (classes("<f8", 1.0, float("1e308") * 10), "do not fit"),
        (classes("<U1", "b", "a"), "each once and in order"),
        (classes("<U1", "a", "bb"), "do not fit"),
        (classes("<U1", "a", 1), "do not fit"),
        (classes("|O", "a", 1), "do not fit"),
        (classes("|O", ["a"], ["b"]), "do not fit"),
        (classes("|O", None, "b"), "do not fit"),
        (lambda content: {"classes": "ab"}, "classes"),
        (lambda content: {"n_features": True}, "n_features"),
        (lambda content: {"n_features": 4.0}, "n_features"),
        (lambda content: {"n_features": -1}, "n_features"),
        (lambda content: {"n_features": 0}, "coef"),
        (lambda content: {"feature_names": "abcd"}, "list of texts"),
        (lambda content: {"feature_names": ["a", "b", "a", "c"]}, "'a' is there more than once"),
        (lambda content: {"feature_names": ["a", "b", "c", "c"]}, "'c' is there more than once"),
        (lambda content: {"fitted_with": ["weights"]}, "it was fitted with"),
        (lambda content: {"fitted_with": "offset"}, "it was fitted with"),
        (lambda content: {"fitted_with": ["offset", "offset"]}, "it was fitted with"),
        (lambda content: {"fitted_with": {"offset": True}}, "it was fitted with"),
        (lambda content: {"feature_names": ["a", "b", "c", 4]}, "list of texts"),
        (lambda content: {"feature_names": {"a": 1, "b": 2, "c": 3, "d": 4}}, "list of texts"),
        (lambda content: {"n_iter": [True]}, "n_iter"),
        (lambda content: {"n_iter": 3}, "n_iter"),
        (lambda content: {"n_iter": [2**40]}, "32 bits"),
        (lambda content: {"n_iter": [-1]}, "n_iter"),
        (lambda content: {"coef": [[1.0, 2.0, 3.0, True]]}, "coef"),
        (lambda content: {"coef": [[1.0, 2.0, 3.0, 10**400]]}, "coef"),
        (lambda content: {"coef": [[[1.0], 2.0, 3.0, 4.0]]}, "coef"),
        (lambda content: {"intercept": [False]}, "intercept"),
        (
            lambda content: {
                "arrays": {"file": "x\x1b.npz", "sha256": "0" * 64},
                "coef": None,
                "intercept": None,
            },
            "name of",
        ),
        (
            lambda content: {
                "arrays": {"file": "x.npz", "sha256": 3},
                "coef": None,
                "intercept": None,
            },
            "digest",
        ),
        (lambda content: {"arrays": [], "coef": None, "intercept": None}, "beside it"),
        (lambda content: {"evil\x1b": 1}, "evil"),
    ],
)
def test_every_field_is_checked(change, word, content, tmp_path):
    changes = change(json.loads(content))
    text = changed(content, **changes).replace("Infinity", "1e999")
    refused(tmp_path / "m.json", text)
    with pytest.raises(ValueError, match=word):
        load(tmp_path / "m.json")


def test_a_key_that_is_there_twice(content, tmp_path):
    refused(
        tmp_path / "m.json",
        content.replace('"n_features": 4', '"n_features": 4, "n_features": 4'),
        "twice",
    )


def test_what_load_would_refuse_is_not_saved(tmp_path):
    model = LogisticRegression().fit(*make_problem(60, 2))
    for name, value in (("C", -1.0), ("solver", "evil"), ("tol", True)):
        with pytest.raises(ValueError, match=name):
            save(model.set_params(**{name: value}), tmp_path / "m.json")
        model.set_params(**{name: LogisticRegression().get_params()[name]})
    model.classes_ = model.classes_[::-1]
    with pytest.raises(ValueError, match="each once and in order"):
        save(model, tmp_path / "m.json")
    assert not list(tmp_path.iterdir())


def test_parameters_by_scikit_learns_names_come_back(tmp_path):
    X, y = make_problem(60, 2)
    with pytest.warns(UserWarning, match="has no effect"):
        first = LogisticRegression(penalty=None, C=2.0, n_jobs=-1, verbose=0).fit(X, y)
    for model in (first, Ridge(alpha=2.0, solver="cholesky").fit(X, y), Ridge(C=2.0).fit(X, y)):
        save(model, tmp_path / "m.json")
        again = load(tmp_path / "m.json")
        assert again.get_params() == model.get_params()
        assert getattr(again, "solver_", None) == getattr(model, "solver_", None)


def test_arrays_keep_shape_order_and_dtype():
    arrays = {
        "a": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "b": np.array(3),
        "c": np.zeros((0, 4), np.float32),
    }
    again = npz.read(npz.write(arrays))
    for name, array in arrays.items():
        np.testing.assert_array_equal(again[name], array)
        assert again[name].dtype == array.dtype
    with pytest.raises(ValueError, match="none of numbers"):
        npz.read(npz.write({"a": np.array(["x"])}))
    made = bytearray(npz.write({"a": np.arange(100.0)}))
    made[len(made) // 2] ^= 1
    with pytest.raises(ValueError, match="no whole .npz file"):
        npz.read(bytes(made))
