"""What a CSV file's beginning tells of how it is written."""

import gzip

import fsspec
import pytest

from daskglm.estimators.csv_dialect import SAMPLED, Dialect, dialect_of

LOCAL = fsspec.filesystem("file")


@pytest.mark.parametrize(
    ("text", "delimiter", "decimal"),
    [
        ("a,b\n1,2\n", ",", "."),
        ("a,b\n1;5,2\n", ",", "."),
        ("a;b\n1;2\n", ";", "."),
        ("a;b\n1,5;x\n2;\n", ";", ","),
        ("a;b\n1,5;2.5\n", ";", "."),  # one of both is text: what is usual
        ("a;b\n1,5;21.03.2024\n", ";", ","),
        ("a;b\n1,5%;7\n", ";", "."),
        ("a;b\nx, y;7\n", ";", "."),
        ("a;b\n-1,5;7\n+2;8\n", ";", ","),
        ('"a, b, c";b\n1,5;2\n', ";", ","),
        ("a\tb\n1,5\t2\n", "\t", ","),
        ("a|b\n1.5|2\n", "|", "."),
        ("a\n1\n", ",", "."),
        ("", ",", "."),
        ("a;b\n", ";", "."),
        ("a;b;c\n1,5\n2,5;3;x\n2;3;x\n", ";", ","),  # rows of other lengths are refused later
    ],
)
def test_delimiter_and_decimal(text, delimiter, decimal, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(text)
    assert dialect_of(LOCAL, str(path)) == Dialect(delimiter, decimal)


def test_marks_of_utf_8_packed_files_and_other_texts_do_not_matter(tmp_path):
    text = "größe;b\n1,5;ü\n"
    for name, content in (
        ("mark.csv", text.encode("utf-8-sig")),
        ("latin.csv", text.encode("latin-1")),
        ("packed.csv.gz", gzip.compress(text.encode())),
    ):
        (tmp_path / name).write_bytes(content)
        assert dialect_of(LOCAL, str(tmp_path / name)) == Dialect(";", ",")


def test_a_line_that_is_cut_says_nothing(tmp_path):
    path = tmp_path / "long.csv"
    # the sample ends between the digits of a number
    path.write_text("a;b\n" + "1,5;2\n" * (SAMPLED // 6) + "1.5;3\n")
    assert dialect_of(LOCAL, str(path)) == Dialect(";", ",")
