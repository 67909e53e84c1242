"""The record of a warm-up: it holds as long as all is as it was."""

import os
import shutil

import pytest

from daskglm.system import warmed


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A folder with two files of machine code, and their record."""
    files = [tmp_path / "caches" / name for name in ("a.py311", "deeper/b.py311")]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"code")
    monkeypatch.setattr(warmed, "cache_folder", lambda: tmp_path / "caches" / "system")
    assert not warmed.Record().holds()
    warmed.Record().write(files)
    assert warmed.Record().holds()
    return files


def test_a_file_that_is_gone_or_cut_is_compiled_again(made):
    made[1].write_bytes(b"cod")
    assert not warmed.Record().holds()
    made[1].unlink()
    assert not warmed.Record().holds()


def test_a_copy_of_the_folders_is_as_good(made, tmp_path, monkeypatch):
    shutil.copytree(tmp_path / "caches", tmp_path / "copy")
    shutil.rmtree(tmp_path / "caches")
    assert not warmed.Record().holds()
    monkeypatch.setattr(warmed, "cache_folder", lambda: tmp_path / "copy" / "system")
    assert warmed.Record().holds()


def test_another_source_version_or_processor_is_another_key(made, tmp_path, monkeypatch):
    shutil.copytree(warmed.PACKAGE / "system", tmp_path / "package" / "system")
    monkeypatch.setattr(warmed, "PACKAGE", tmp_path / "package")
    assert not warmed.Record().holds()
    warmed.Record().write(made)
    assert warmed.Record().holds()
    with open(tmp_path / "package" / "system" / "files.py", "a") as source:
        source.write("# edited\n")
    assert not warmed.Record().holds()
    warmed.Record().write(made)
    monkeypatch.setattr(warmed.numba, "__version__", "0")
    assert not warmed.Record().holds()


@pytest.mark.parametrize("content", [b"", b"[]", b'{"key": 1}', b"\xff"])
def test_a_damaged_record_is_none(made, content):
    path = warmed.cache_folder() / warmed.NAME
    path.write_bytes(content)
    assert not warmed.Record().holds()


def test_where_nothing_can_be_written_there_is_no_record(made, monkeypatch):
    monkeypatch.setattr(warmed, "cache_folder", lambda: None)
    warmed.Record().write(made)
    assert not warmed.Record().holds()
    monkeypatch.setattr(warmed, "cache_folder", lambda: made[0] / os.sep.join("no folder"))
    warmed.Record().write(made)
    assert not warmed.Record().holds()
