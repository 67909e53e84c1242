"""What a release consists of agrees with itself: versions, requirements, workflows, templates, citation."""

import importlib.util
import re
import sys
import tomllib
import types
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import daskglm

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).resolve().parents[1]
GITHUB = ROOT / ".github"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))


def read(path):
    return yaml.safe_load(path.read_text())


def test_versions_agree():
    version = PROJECT["version"]
    assert daskglm.__version__ == version
    assert read(ROOT / "CITATION.cff")["version"] == version
    assert read(ROOT / "deploy" / "conda" / "recipe.yaml")["context"]["version"] == version
    first = re.search(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    assert first == version
    assert Version(version).release[:2] == (0, 2)
    for path in (ROOT / "deploy" / "kubernetes").rglob("*"):
        if path.is_file():
            for found in re.findall(r"daskglm:([0-9][^\s\"-]*)", path.read_text()):
                assert found == version, path


def test_the_conda_recipe_asks_for_what_the_package_asks_for():
    run = read(ROOT / "deploy" / "conda" / "recipe.yaml")["requirements"]["run"]
    wanted = {"python": PROJECT["requires-python"]}
    for text in PROJECT["dependencies"]:
        requirement = Requirement(text)
        # conda's package `dask` brings distributed, bokeh and more; the rest of `dataframe` is listed
        name = "dask-core" if requirement.name == "dask" else requirement.name
        wanted[name] = str(requirement.specifier)
    assert dict(line.split() for line in run) == wanted


def test_the_citation_has_what_its_format_wants():
    citation = read(ROOT / "CITATION.cff")
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    assert citation["license"] == PROJECT["license"]
    for each in [citation, *citation["references"]]:
        for author in each["authors"]:
            assert set(author) in ({"name"}, {"family-names", "given-names"})


def steps():
    for path in WORKFLOWS:
        for name, job in read(path)["jobs"].items():
            for step in job["steps"]:
                yield f"{path.name}: {name}", step


def test_workflows_are_there():
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "release.yml"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_have_the_form_of_workflows(path):
    workflow = read(path)
    # YAML 1.1 reads the key `on` as true
    assert {"name", True, "permissions", "jobs"} <= set(workflow)
    for name, job in workflow["jobs"].items():
        assert "runs-on" in job, name
        assert set(job.get("needs", [])) <= set(workflow["jobs"])
        used = set(re.findall(r"matrix\.([\w-]+)", str(job)))
        assert used <= set(job.get("strategy", {}).get("matrix", {}))
        for step in job["steps"]:
            assert len({"uses", "run"} & set(step)) == 1


def test_actions_are_pinned_to_a_version():
    for where, step in steps():
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+)", step["uses"]), where


def test_workflows_call_what_is_there():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for where, step in steps():
        for target in re.findall(r"\bmake ([a-z-]+)", step.get("run", "")):
            assert target in targets, where
        for file in re.findall(r"\b(?:deploy|tests)/[\w./-]+", step.get("run", "")):
            assert (ROOT / file).exists(), where


def test_every_python_of_the_package_is_tested_and_released():
    versions = [
        line.rsplit(" ", 1)[1]
        for line in PROJECT["classifiers"]
        if re.search(r"Python :: 3\.\d+$", line)
    ]
    tests = read(GITHUB / "workflows" / "ci.yml")["jobs"]["tests"]["strategy"]["matrix"]
    assert tests["python-version"] == versions
    assert len(tests["os"]) == 3
    wheels = read(GITHUB / "workflows" / "release.yml")["jobs"]["wheel"]["strategy"]["matrix"]
    assert wheels["python-version"] == versions


def test_wheels_are_built_and_tested_on_each_system():
    """With machine code where there are levels of processors: not on Macs, whose wheel is uploaded once."""
    job = read(GITHUB / "workflows" / "release.yml")["jobs"]["wheel"]
    matrix = job["strategy"]["matrix"]
    assert matrix["os"] == ["ubuntu-latest", "windows-latest", "macos-latest"]
    assert job["runs-on"] == "${{ matrix.os }}"
    runs = {step["run"]: step.get("if") for step in job["steps"] if "run" in step}
    assert runs["python deploy/wheel/machine_code.py"] == "runner.os != 'macOS'"
    assert runs["python -m build --wheel --outdir dist"] is None
    assert not [command for command in runs if "make " in command], "Windows has no make"
    (upload,) = [step for step in job["steps"] if "upload" in step.get("uses", "")]
    once = re.fullmatch(
        r"runner.os != 'macOS' \|\| matrix.python-version == '([\d.]+)'", upload["if"]
    )
    assert once[1] in matrix["python-version"]
    # two artifacts of one name are refused
    assert {"matrix.os", "matrix.python-version"} <= set(
        re.findall(r"matrix\.[\w-]+", upload["with"]["name"])
    )


def test_tests_that_workflows_choose_by_a_mark_have_it():
    chosen = [
        found.groups()
        for _, step in steps()
        if (found := re.search(r"pytest -m (\w+) (\S+)", step.get("run", "")))
    ]
    assert chosen
    for mark, file in chosen:
        assert f"pytest.mark.{mark}\n" in (ROOT / file).read_text(), file


@pytest.mark.parametrize(
    ("platform", "system"),
    [("linux", "manylinux2014_x86_64"), ("win32", "win_amd64"), ("darwin", None)],
)
def test_the_tag_of_a_wheel_is_that_of_its_machine_code(monkeypatch, tmp_path, platform, system):
    interface = types.ModuleType("hatchling.builders.hooks.plugin.interface")
    interface.BuildHookInterface = object  # hatchling itself is there only while a wheel is built
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    monkeypatch.setattr(sys, "platform", platform)
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    hook, data = module.MachineCodeTag(), {}
    hook.root = tmp_path
    hook.initialize("standard", data)
    assert data == {}  # a wheel without machine code is for any Python
    (tmp_path / "daskglm" / "machine_code" / "x86-64-v3").mkdir(parents=True)
    (tmp_path / "daskglm" / "machine_code" / "x86-64-v3" / "kernel.py311").touch()
    hook.initialize("editable", data)
    assert data == {}
    if system is None:
        with pytest.raises(KeyError, match="darwin"):
            hook.initialize("standard", data)
        return
    hook.initialize("standard", data)
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    assert data == {"pure_python": False, "tag": f"{python}-none-{system}"}


def test_publishing_needs_no_password():
    publish = read(GITHUB / "workflows" / "release.yml")["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert "secrets." not in (GITHUB / "workflows" / "release.yml").read_text()


@pytest.mark.parametrize("name", ["bug_report", "feature_request"])
def test_issue_templates_ask_for_what_is_needed(name):
    form = read(GITHUB / "ISSUE_TEMPLATE" / f"{name}.yml")
    assert {"name", "description", "body"} <= set(form)
    named = [part["id"] for part in form["body"] if part["type"] != "markdown"]
    assert len(named) == len(set(named))
    for part in form["body"]:
        assert part["attributes"].get("label") or part["attributes"].get("value")
