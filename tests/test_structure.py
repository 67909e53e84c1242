"""Budgets of files and functions. pyproject.toml states which module may import which."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "daskglm"
FILE_STATEMENTS, FUNCTION_STATEMENTS = 300, 48


def statements(node):
    """How many statements a tree has. Lines are not counted: nobody gains from a packed page."""
    return sum(isinstance(each, ast.stmt) for each in ast.walk(node))


def violations(source):
    tree = ast.parse(source)
    if (count := statements(tree)) > FILE_STATEMENTS:
        yield f"the file has {count} statements, more than {FILE_STATEMENTS}"
    functions = [
        node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    for node in functions:
        if (count := statements(node)) > FUNCTION_STATEMENTS:
            yield f"{node.name} has {count} statements, more than {FUNCTION_STATEMENTS}"


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_files_and_functions_are_short(path):
    assert not list(violations(path.read_text()))


def test_long_files_and_functions_are_seen():
    found = "\n".join(violations("def g():\n" + "    x = 1\n" * 400))
    assert "the file has 401 statements" in found
    assert "g has 401 statements" in found
    assert not list(violations("x = 1\n" * 300))


def bases(source):
    """Classes with two bases or more, beside protocols and marks of type variables."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            names = [ast.unparse(base).partition("[")[0] for base in node.bases]
            if len([name for name in names if name not in ("Generic", "Protocol")]) > 1:
                yield node.name


@pytest.mark.parametrize(
    "folder",
    ["objectives", "certificates", "duals", "solvers", "penalties", "worker", "engines", "fitting"],
)
def test_a_combination_is_a_value_and_no_class_of_two_bases(folder):
    found = [name for path in (PACKAGE / folder).rglob("*.py") for name in bases(path.read_text())]
    assert not found
    assert list(bases("class A(B, C): pass\nclass D(B, Generic[T]): pass")) == ["A"]


def test_only_the_command_line_lies_beside_the_folders():
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py", "cli.py"}
