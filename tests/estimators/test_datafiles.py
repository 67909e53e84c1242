"""The format of files follows from what is asked for, or from their names."""

import os

import pytest

from daskglm.estimators.datafiles import format_of


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a.svm", "svmlight"),
        ("rows.libsvm.gz", "svmlight"),
        ("a9a.bz2", "svmlight"),
        ("rows.TXT", "svmlight"),
        ("rows.csv", "csv"),
        ("rows.csv.gz", "csv"),
        ("rows.parquet", "parquet"),
        ("rows.pq", "parquet"),
        ("rows.dat", None),
    ],
)
def test_formats_by_name(name, found):
    assert format_of(name, "auto") == found


def test_a_workbook_is_refused_by_name():
    with pytest.raises(ValueError, match="rows.XLSX is a workbook: save its sheet as 'CSV UTF-8'"):
        format_of("rows.XLSX", "auto")


def test_what_is_asked_for_counts():
    assert format_of("rows.csv", "svmlight") == "svmlight"


def test_a_folder_has_parquet_files(tmp_path):
    assert format_of(str(tmp_path), "auto") == "parquet"


def test_a_pipe_cannot_be_read_twice(tmp_path):
    os.mkfifo(tmp_path / "rows.csv")
    with pytest.raises(ValueError, match="is a pipe or a device"):
        format_of(str(tmp_path / "rows.csv"), "auto")


def test_a_folder_may_have_csv_files(tmp_path):
    for name in ("a.csv", "b.csv.gz", "README"):
        (tmp_path / name).write_text("")
    assert format_of(str(tmp_path), "auto") == "csv"
    (tmp_path / "c.parquet").write_text("")
    assert format_of(str(tmp_path), "auto") == "parquet"
