"""What can be checked of the locks without a network: `make audit` asks databases of vulnerabilities, where it has one."""

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ("requirements.lock", "requirements-cuda.lock", "requirements-deploy.lock")
LINE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][0-9A-Za-z.]*")
OF_PYTHON = {
    "pip",
    "setuptools",
    "wheel",
    "daskglm",
}  # that `python -m venv` puts there, and ourselves


def lines(name):
    return (ROOT / name).read_text().split()


def pins(*names):
    found = {}
    for line in (line for name in names for line in lines(name)):
        name, _, version = line.partition("==")
        assert found.setdefault(canonicalize_name(name), version) == version, (
            f"{name} has two versions"
        )
    return found


def bounds():
    """Requirements of the package and its extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [
        each
        for name, wanted in project["optional-dependencies"].items()
        if name in ("dev", "deploy", "plot")
        for each in wanted
    ]
    return [Requirement(text) for text in [*project["dependencies"], *extras]]


@pytest.fixture(scope="module")
def installed():
    """Distributions by name; skips where the environment is not that of the lock."""
    found = {
        canonicalize_name(each.metadata["Name"]): each
        for each in importlib.metadata.distributions()
    }
    if found["numpy"].version != pins("requirements.lock")["numpy"]:
        pytest.skip("this environment was made from other versions than those of requirements.lock")
    return found


@pytest.mark.parametrize("name", [*LOCKS, "requirements-lowest.txt"])
def test_every_line_is_one_release_and_nothing_else(name):
    """No URL, option, range, local or development version: an audit by name and version means what is installed."""
    for line in lines(name):
        assert LINE.fullmatch(line), line
        version = Version(line.partition("==")[2])
        assert not version.is_prerelease, line
        assert version.local is None, line
    names = [canonicalize_name(line.partition("==")[0]) for line in lines(name)]
    assert len(names) == len(set(names))


def test_locks_agree_and_keep_to_the_bounds():
    known = pins(*LOCKS)
    for wanted in bounds():
        version = known[canonicalize_name(wanted.name)]
        assert wanted.specifier.contains(version), f"{wanted} but the lock has {version}"


def test_the_lowest_versions_are_the_bounds():
    lowest = pins("requirements-lowest.txt")
    for wanted in bounds():
        (bound,) = [each.version for each in wanted.specifier if each.operator in (">=", "==")]
        if (name := canonicalize_name(wanted.name)) in lowest:
            assert Version(lowest[name]) in wanted.specifier
            assert Version(lowest[name]).release[:2] == (*Version(bound).release, 0)[:2], wanted


def test_what_is_installed_is_what_the_locks_say(installed):
    known = pins(*LOCKS)
    stray = [name for name in installed if name not in known and name not in OF_PYTHON]
    other = [
        name for name, each in installed.items() if name in known and known[name] != each.version
    ]
    assert not stray, f"installed, but in no lock: {', '.join(sorted(stray))}"
    assert not other, f"installed in another version than the lock's: {', '.join(sorted(other))}"
    missing = [name for name in pins("requirements.lock") if name not in installed]
    assert not missing, f"in the lock, but not installed: {', '.join(missing)}"


def test_what_the_lock_installs_has_all_that_it_asks_for(installed):
    """What `pip check` looks at, but for distributions that are installed without what they ask for on purpose."""
    broken = []
    for name in pins("requirements.lock"):
        for text in importlib.metadata.requires(installed[name].metadata["Name"]) or []:
            wanted = Requirement(text)
            if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
                continue
            found = installed.get(canonicalize_name(wanted.name))
            if found is None or not wanted.specifier.contains(found.version, prereleases=True):
                broken.append(f"{name} wants {wanted}, found {found and found.version}")
    assert not broken, broken


def test_no_distribution_of_the_lock_says_that_it_is_yanked_or_unmaintained(installed):
    """Whether a release was withdrawn is known to an index only; a distribution can say that it is inactive."""
    inactive = "Development Status :: 7 - Inactive"
    said = [
        name
        for name in pins("requirements.lock")
        if inactive in installed[name].metadata.get_all("Classifier", [])
    ]
    assert not said, said
