"""The script that runs other projects' tests: how it patches their files, and that its list of causes is sound."""

import fnmatch
import json

import daskglm
from tests.compatibility.__main__ import EXPECTED, cause_of, tell
from tests.compatibility.patch import (
    SUITES,
    functions_about,
    patched,
    sklearn_header,
    write_sklearn,
)

SOURCE = '''"""Words."""
import numpy as np
from sklearn import svm, datasets
from sklearn.linear_model import (
    LogisticRegression,
    SGDClassifier,
)

def test_one():
    assert LogisticRegression

@parametrize("cls", [svm.LinearSVC])
def test_two(cls):
    assert cls
'''


def test_names_mean_our_estimators_after_the_imports():
    text = patched(SOURCE, sklearn_header(SOURCE))
    assert text.index("SGDClassifier") < text.index("_daskglm") < text.index("def test_one")
    scope = {}
    exec(text.split("def test_one")[0], scope)
    assert scope["LogisticRegression"] is daskglm.LogisticRegression
    assert scope["svm"].LinearSVC is daskglm.LinearSVC
    assert scope["svm"].SVC.__module__.startswith("sklearn")
    assert "sklearn" in scope["SGDClassifier"].__module__


def test_tests_are_chosen_by_a_word_in_them():
    assert functions_about(SOURCE, "LinearSVC") == ["test_two"]
    assert functions_about(SOURCE, None) == ["test_one", "test_two"]


def test_files_of_the_scikit_learn_that_is_installed_can_be_patched(tmp_path):
    for suite in SUITES:
        path, functions = write_sklearn(suite, tmp_path)
        compile(path.read_text(), str(path), "exec")
        assert len(functions) >= 10


def test_causes_are_told_and_unknown_failures_are_errors(capsys):
    known = json.loads(EXPECTED.read_text())
    assert all(entry["cause"] and entry["tests"] for entries in known.values() for entry in entries)
    assert all(
        not fnmatch.fnmatchcase("test_", each)
        for entries in known.values()
        for e in entries
        for each in e["tests"]
    )
    assert (
        cause_of("test_logistic.py", "test_liblinear_not_stuck[42]")
        == "differs: LIBLINEAR penalises the intercept, and stops by another rule"
    )
    assert not tell(
        "test_logistic.py",
        {"test_liblinear_not_stuck[x]": ("failed", "why"), "test_a": ("passed", "")},
    )
    assert tell("test_logistic.py", {"test_new_thing": ("failed", "something")})
    assert "UNEXPECTED test_new_thing: something" in capsys.readouterr().out
