"""The records, and the page that lists when they decline."""

from pathlib import Path

import pytest
from sklearn import linear_model, svm

import daskglm
from daskglm.accel.table import RECORDS

PAGE = (Path(__file__).parents[2] / "docs" / "accel.md").read_text()


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_the_page_has_each_name_and_each_reason(record):
    assert f"`{record.name}`" in PAGE
    for rule in (*record.by_parameters, *record.by_rows):
        assert f"| {rule.why}" in PAGE


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_a_record_is_of_a_class_there_and_here(record):
    theirs = getattr({"linear_model": linear_model, "svm": svm}[record.folder], record.name)
    assert theirs.__mro__[0].__module__.startswith("sklearn")
    assert record.ours or getattr(daskglm, record.name).__name__ == record.name
    assert record.classifies == hasattr(theirs, "decision_function")
