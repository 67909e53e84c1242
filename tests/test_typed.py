"""What a type checker says of the examples: pyright, at night, where it is installed (`pip install pyright`)."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# distributed declares what `Client.run` returns to asynchronous clients, and to no others
OF_OTHERS = re.compile(r'attribute "values" for class "CoroutineType')
SETTINGS = {
    "include": ["."],
    "typeCheckingMode": "basic",
    "extraPaths": [str(ROOT)],
    # of libraries without annotations, such as pandas, it would guess types from their code, wrongly
    "useLibraryCodeForTypes": False,
}
WRONG = """
import daskglm

model = daskglm.Ridge(alpah=1.0)
daskglm.regularization_path()
daskglm.no_such_name
gap: str = daskglm.Ridge().report_.relative_gap
"""


def test_the_package_says_that_it_is_typed():
    assert (ROOT / "daskglm" / "py.typed").is_file()


@pytest.fixture
def errors(tmp_path):
    """A function that returns what pyright finds in sources by name: (name, line, message)."""
    pytest.importorskip("pyright")

    def found(sources):
        for name, text in sources.items():
            (tmp_path / name).write_text(text)
        (tmp_path / "pyrightconfig.json").write_text(json.dumps(SETTINGS))
        command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
        done = subprocess.run([*command, "-p", tmp_path], capture_output=True, text=True)
        report = json.loads(done.stdout)
        assert report["summary"]["filesAnalyzed"] == len(sources), done.stderr
        return [
            (Path(each["file"]).name, each["range"]["start"]["line"] + 1, each["message"])
            for each in report["generalDiagnostics"]
            if each["severity"] == "error"
        ]

    return found


@pytest.mark.nightly
def test_the_examples_pass(errors):
    sources = {path.name: path.read_text() for path in (ROOT / "docs" / "examples").glob("*.py")}
    blocks = BLOCK.findall((ROOT / "README.md").read_text())
    assert len(sources) > 5
    assert len(blocks) > 2
    sources |= {f"readme_{number}.py": block for number, block in enumerate(blocks)}
    assert not [error for error in errors(sources) if not OF_OTHERS.search(error[2])]


@pytest.mark.nightly
def test_wrong_uses_are_found(errors):
    """So the types are read, and an example without errors means something."""
    assert {line for _, line, _ in errors({"wrong.py": WRONG})} == {4, 5, 6, 7}
