"""Pages and docstrings: examples run, links and named files exist, and the README stays short."""

import ast
import contextlib
import doctest
import importlib
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import daskglm
from daskglm.cli import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md")]
)
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "daskglm").rglob("*.py")
    if ">>> " in path.read_text()
)
EXECUTED = runpy.run_path(str(ROOT / "docs/executed.py"))  # which the pages are built with
FENCE, NOT_RUN = EXECUTED["FENCE"], EXECUTED["NOT_RUN"]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAMED = re.compile(r"`((?:daskglm|tests|benchmarks|deploy|docs)/[\w./-]+\.(?:py|md|cu|sh|json))`")


def examples(text):
    """Python blocks of a page, in their order, but those that a comment says are not run."""
    for fence in FENCE.finditer(text):
        if fence[1] == "python" and not NOT_RUN.search(text[: fence.start()]):
            yield text.count("\n", 0, fence.start()) + 1, fence[2]


def anchors(text):
    """Headings of a page as links name them."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def runnable():
    return [page for page in PAGES if any(examples((ROOT / page).read_text()))]


@pytest.fixture
def shared_cluster(_cluster, monkeypatch):
    """Examples that start a LocalCluster are given the one that all tests share."""
    import distributed

    monkeypatch.setattr(
        distributed, "LocalCluster", lambda **options: contextlib.nullcontext(_cluster)
    )


@pytest.mark.parametrize("page", runnable())
def test_examples_of_a_page_run(page, shared_cluster, tmp_path, monkeypatch):
    """In one namespace, from top to bottom, as a reader would."""
    monkeypatch.chdir(tmp_path)
    np.random.seed(0)
    names = {"__name__": "__main__"}
    for line, block in examples((ROOT / page).read_text()):
        code = compile("\n" * line + block, page, "exec")
        exec(code, names)


def test_outputs_of_a_block_are_those_of_a_notebook():
    output, names = EXECUTED["output"], {}
    assert output("x = 1\nprint(x + 1)\n", names) == [("text", "2\n")]
    assert output("print(3)\nx\n", names) == [("text", "3\n"), ("text", "1")]
    assert output("y = x\n", names) == []
    assert output("import daskglm\ndaskglm.Ridge().fit([[0.0], [1.0]], [0.0, 1.0])\n", names) == []
    table = "import pandas\npandas.DataFrame({'a': [x]})\n"
    ((kind, text),) = output(table, names)
    assert kind == "html"
    assert "<table" in text
    with pytest.raises(AssertionError):
        output("assert x == 2\n", names)


def test_figures_of_a_block_are_shown_once():
    pytest.importorskip("matplotlib").use("agg")
    drawn = "import matplotlib.pyplot as plt\nplt.figure()\nplt.plot([1, 2])\n"
    names = {}
    ((kind, text),) = EXECUTED["output"](drawn, names)
    assert (kind, text[:4]) == ("html", "<svg")
    assert EXECUTED["output"]("figure = 1\n", names) == []


def test_a_page_is_filled_with_its_outputs():
    class App:
        class env:
            doc2path = staticmethod(lambda page: f"{page}.{'md' if page == 'a' else 'rst'}")

    text = "# A\n```python\nx = '<b>'\nprint(x)\n```\n<!-- not run: no -->\n```python\n1 / 0\n```\n"
    source = [text]
    EXECUTED["fill"](App, "b", source)
    assert source == [text]
    EXECUTED["fill"](App, "a", source)
    assert source[0].count("daskglm-output") == 1
    assert "print(x)\n```\n\n````{raw} html" in source[0]
    assert "&lt;b&gt;" in source[0]
    with pytest.raises(RuntimeError, match=r"a\.md, the block at line 3: ZeroDivisionError"):
        EXECUTED["fill"](App, "a", ["# A\n\n```python\n1 / 0\n```\n"])


@pytest.mark.parametrize("module", MODULES)
def test_examples_of_docstrings_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testmod(importlib.import_module(module))
    assert tried
    assert not failed


@pytest.mark.parametrize("page", PAGES)
def test_links_and_named_files_exist(page):
    path = ROOT / page
    text = path.read_text()
    for link in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        there = path.parent / name if name else path
        assert there.exists(), f"{page}: {link}"
        if anchor:
            assert anchor in anchors(there.read_text()), f"{page}: {link}"
    for name in NAMED.findall(text):
        assert (ROOT / name).exists(), f"{page} names {name}, which does not exist"


# Signs of a formula that is neither TeX nor code: powers, sums, comparisons, indexed letters.
FORMULA = re.compile(r"(?<=[\w)])\^|\b(?:sum|max)_\w\b|[<>]=|\b[a-zA-Z]_[ijk]\b")
SET = re.compile(r"\$\$.+?\$\$|\$[^$]+\$|`[^`]+`", re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/")])
def test_formulas_of_a_page_are_set(page):
    lines = SET.sub("", FENCE.sub("", (ROOT / page).read_text())).splitlines()
    assert not [line for line in lines if FORMULA.search(line) and not line.startswith("#")]


def test_what_the_check_of_formulas_would_find():
    for text in ("f(w) <= 1", "sum_i s_i", "the row x_i is", "y^2"):
        assert FORMULA.search(text), text
    assert not FORMULA.search(SET.sub("", "`C >= 0`, $x_i^2$, and a `coef_`"))


def listed(page):
    """Pages below a page in the table of contents."""
    trees = re.findall(r"^```{toctree}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    entries = [line for tree in trees for line in tree.splitlines() if line[:1] not in ("", ":")]
    return [re.sub(r".*<(.+)>", r"\1", entry) for entry in entries]


def test_every_page_is_once_in_the_table_of_contents():
    found = [each for page in (ROOT / "docs").glob("*.md") for each in listed(page)]
    pages = [page.stem for page in (ROOT / "docs").glob("*.[mr][ds]*") if page.stem != "index"]
    assert sorted(found) == sorted([*pages, "generated/gallery/index"])


def test_the_front_page_has_a_handful_of_groups_that_name_their_pages():
    groups = listed(ROOT / "docs/index.md")
    assert len(groups) == 7
    for group in groups:
        text = (ROOT / f"docs/{group}.md").read_text()
        for page in listed(ROOT / f"docs/{group}.md"):
            # a page that is made by the build is no file to link to
            named = rf"\]\({page}\.(md|rst)\)|{{doc}}`[^`]*<{page}>`"
            assert re.search(named, text), f"{group} does not name {page}"


def test_examples_ask_a_question_and_say_where_their_rows_come_from():
    examples = sorted((ROOT / "docs/examples").glob("*.py"))
    assert examples
    for example in examples:
        text = example.read_text()
        question = text.split('"""')[1].split("\n\n", 1)[1]
        assert "?" in question, example.name
        assert "What was learnt" in text, example.name
        assert re.search(r"^# The rows", text, re.MULTILINE), example.name


def test_examples_that_read_a_file_are_known_to_the_build():
    """Without their file, docs/conf.py leaves them unexecuted."""
    config = (ROOT / "docs/conf.py").read_text()
    needed = dict(re.findall(r'^    "(\w+)": "([\w/.]+\.xz)",$', config, re.MULTILINE))
    reading = {
        example.stem: example.read_text()
        for example in (ROOT / "docs/examples").glob("*.py")
        if "DASKGLM_DATA" in example.read_text()
    }
    assert needed.keys() == reading.keys()
    for example, file in needed.items():
        assert f'Path(os.environ["DASKGLM_DATA"], "{file}")' in reading[example]


def test_the_reference_has_all_public_names():
    listed = (ROOT / "docs/api.rst").read_text().split()
    assert set(daskglm.__all__) <= set(listed)


def test_the_reference_sends_readers_to_pages_of_the_guide():
    tree = ast.parse((ROOT / "docs/conf.py").read_text())
    (guide,) = (
        ast.literal_eval(each.value)
        for each in tree.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "GUIDE"
    )
    names = [name for about in guide.values() for name in about]
    assert len(names) == len(set(names))
    assert set(names) <= set(daskglm.__all__)
    estimators = {name for name in daskglm.__all__ if hasattr(getattr(daskglm, name), "fit")}
    assert estimators <= set(names)


@pytest.mark.parametrize("command", ["fit", "predict", "info"])
def test_the_page_on_the_command_line_has_all_options(command):
    page = (ROOT / "docs/command-line.md").read_text()
    section = re.search(rf"^## `daskglm {command} .*?(?=^## )", page, re.MULTILINE | re.DOTALL)[0]
    for option in main.get_command(None, command).params:
        for name in (*option.opts, *option.secondary_opts):
            assert not name.startswith("--") or f"`{name}" in section, name


# ---- the README, as a newcomer pastes it
README = (ROOT / "README.md").read_text()
BLOCKS = [block for _, block in examples(README)]


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_block_of_the_readme_runs_alone(number, shared_cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(BLOCKS[number], "README.md", "exec"), {"__name__": "__main__"})


@pytest.mark.slow
def test_the_blocks_of_the_readme_are_one_script(tmp_path):
    """As a file that is run: workers of its cluster are processes, which import it."""
    script = tmp_path / "script.py"
    script.write_text("\n".join(BLOCKS))
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert "area[b]" in done.stdout  # the table of the first block
    assert "dtype: float64" in done.stdout  # predictions of the cluster


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
def test_the_commands_of_the_readme_run(tmp_path):
    (commands,) = [fence[2] for fence in FENCE.finditer(README) if fence[1] == "sh"]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euc", commands],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": path},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "predictions.csv").read_text().startswith("prediction\n")
    assert "Ridge" in done.stdout


def test_the_targets_of_make_that_the_readme_names_exist():
    makefile = (ROOT / "Makefile").read_text()
    named = re.findall(r"^make ([\w-]+)|`make ([\w-]+)", README, re.MULTILINE)
    assert named
    for target in map("".join, named):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_picture_of_the_readme_is_small():
    (picture,) = re.findall(r"^!\[[^\]]+\]\((.+)\)$", README, re.MULTILINE)
    assert 5_000 < (ROOT / picture).stat().st_size < 60_000


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
