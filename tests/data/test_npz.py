"""Files of arrays are checked by their headers before any number is read."""

import io
import zipfile

import numpy as np
import pytest

from daskglm.data import npz

ARRAYS = {
    "w": np.linspace(0, 1, 7),
    "order": np.array([[3, 1], [2, 0]], np.int32, order="F"),
    "none": np.zeros((0, 4)),
}


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as held:
        for name, content in members.items():
            held.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def saved(values, **options):
    buffer = io.BytesIO()
    np.save(buffer, values, **options)
    return buffer.getvalue()


def test_arrays_come_back(tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(npz.write(ARRAYS))
    for source in (path, npz.write(ARRAYS)):
        found = npz.read(source)
        assert list(found) == list(ARRAYS)
        for name, values in ARRAYS.items():
            np.testing.assert_array_equal(found[name], values)
            assert found[name].dtype == values.dtype


def test_big_endian_numbers_become_native():
    found = npz.read(zipped(w=saved(np.arange(3, dtype=">f8"))))["w"]
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [0.0, 1.0, 2.0])


def test_headers_are_checked_before_numbers_are_read():
    def check(headers):
        assert headers["w"].shape == (7,)
        raise ValueError("not wanted")

    with pytest.raises(ValueError, match="not wanted"):
        npz.read(npz.write(ARRAYS), check)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"text", "no whole .npz file"),
        (npz.write(ARRAYS)[:-40], "no whole .npz file"),
        (zipped(w=saved(np.array([None]), allow_pickle=True)), "which is none of numbers"),
        (zipped(w=saved(np.array(["text"]))), "which is none of numbers"),
        (zipped(w=saved(np.arange(9.0))[:-8]), "but has 64 bytes"),
        (zipped(**{f"a{k}": saved(np.zeros(1)) for k in range(65)}), "65 arrays, more than 64"),
    ],
    ids=["text", "cut", "objects", "strings", "short", "many"],
)
def test_what_is_no_such_file(content, said):
    with pytest.raises(ValueError, match=said):
        npz.read(content)


def test_compressed_arrays_are_refused():
    buffer = io.BytesIO()
    np.savez_compressed(buffer, w=np.zeros(10**5))
    with pytest.raises(ValueError, match="array 'w' is compressed"):
        npz.read(buffer.getvalue())


def test_one_array():
    np.testing.assert_array_equal(npz.array(saved(np.arange(3.0))), [0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="but has 16 bytes"):
        npz.array(saved(np.arange(3.0))[:-8])
