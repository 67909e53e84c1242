"""What a release consists of agrees with itself: versions, requirements, workflows, templates, citation."""

import re
import tomllib
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
