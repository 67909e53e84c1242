"""Files are written whole or not at all."""

import pytest

from daskglm.system import files


def test_a_file_is_written_and_replaced(tmp_path):
    path = tmp_path / "a"
    for content in (b"old", b"new and longer", b""):
        files.replace_file(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch):
    path = tmp_path / "a"
    files.replace_file(path, b"old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        files.replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        files.replace_file(tmp_path / "no" / "a", b"")
