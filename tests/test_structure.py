"""Budgets of files and functions. Which module may import which is stated in pyproject.toml, for import-linter."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "daskglm"
FILE_LINES, FUNCTION_LINES = 400, 60


def violations(source):
    """What is too long in one file. Docstrings do not count towards a function's lines."""
    if (lines := source.count("\n")) > FILE_LINES:
        yield f"the file has {lines} lines, more than {FILE_LINES}"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            doc = node.body[0].end_lineno - node.body[0].lineno + 1 if ast.get_docstring(node) else 0
            if (length := node.end_lineno - node.lineno + 1 - doc) > FUNCTION_LINES:
                yield f"{node.name} has {length} lines, more than {FUNCTION_LINES}"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_and_functions_are_short(path):
    assert not list(violations(path.read_text()))


def test_long_files_and_functions_are_seen():
    found = "\n".join(violations("def g():\n" + "    x = 1\n" * 400))
    assert "the file has 401 lines" in found
    assert "g has 401 lines" in found
    assert not list(violations("x = 1\n" * 400))


def test_only_the_command_line_lies_beside_the_folders():
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py", "cli.py"}
