"""The manifests in `deploy/kubernetes` are right, and its validator does find what is wrong."""

import copy
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "deploy" / "kubernetes"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def validate():
    spec = importlib.util.spec_from_file_location("validate_kubernetes", FOLDER / "validate.py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        module.crd_folder(_crds())
    except ImportError as error:
        pytest.skip(f"kubernetes-validate and dask-kubernetes (or DASKGLM_CRDS) are needed: {error}")
    return module


def _crds():
    given = os.environ.get("DASKGLM_CRDS")
    return Path(given) if given else None


@pytest.fixture(scope="module")
def check(validate):
    schemas = validate.read_crds(validate.crd_folder(_crds()))
    return lambda resource: "; ".join(validate.problems(resource, schemas))


@pytest.fixture(scope="module")
def load(validate):
    known = {(source, each["kind"]): each for source, each in validate.resources()}
    return lambda source, kind: copy.deepcopy(known[source, kind])


def _change(resource, path, value):
    *parents, last = path
    for key in parents:
        resource = resource[key]
    resource[last] = value


def test_all_manifests_are_valid(validate):
    given = ["--crds", str(_crds())] if _crds() else []
    done = subprocess.run([sys.executable, FOLDER / "validate.py", *given], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for part in ("DaskCluster/daskglm: ok", "Job/daskglm-fit: ok", "StatefulSet/daskglm-worker: ok"):
        assert part in done.stdout
    # daskglm is installed where the tests run
    assert "commands not checked" not in done.stdout


WORKER = ["spec", "worker", "spec", "containers", 0]
POD = ["spec", "template", "spec", "containers", 0]


@pytest.mark.parametrize(
    ("source", "kind", "path", "value", "said"),
    [
        ("daskcluster.yaml", "DaskCluster", ["spec", "worker", "replica"], 2, "replica"),
        ("daskcluster.yaml", "DaskCluster", [*WORKER, "resource"], {}, "resource"),
        ("daskcluster-gpu.yaml", "DaskCluster", [*WORKER, "resources", "limits", "nvidia.com/gpu"], 1, "gpu: 1 is not"),
        ("daskcluster.yaml", "DaskCluster", ["spec", "worker", "replicas"], "four", "'four' is not"),
        ("base/workers.yaml", "StatefulSet", ["spec", "replicas"], "four", "'four' is not"),
        ("base/workers.yaml", "StatefulSet", [*POD, "resource"], {}, "resource"),
        ("daskcluster.yaml", "DaskCluster", [*WORKER, "args"], ["cluster", "workers"], "DASK_WORKER_NAME"),
        ("daskcluster.yaml", "DaskCluster", ["metadata", "name"], "other", "select"),
        ("base/workers.yaml", "StatefulSet", [*POD, "resources", "limits", "cpu"], "5", "equal"),
        ("base/workers.yaml", "StatefulSet", [*POD, "env"], [], "no variable CPUS, POD_IP, POD_NAME"),
        ("base/scheduler.yaml", "Deployment", ["spec", "template", "spec", "volumes"], [], "no volume tls, tmp"),
        ("base/scheduler.yaml", "Deployment", ["spec", "selector", "matchLabels"], {"a": "b"}, "selector"),
    ],
)
def test_validator_finds_mistakes(check, load, source, kind, path, value, said):
    resource = load(source, kind)
    assert check(resource) == ""
    _change(resource, path, value)
    assert said in check(resource)


def test_validator_finds_secrets(check):
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "daskglm-tls"}, "data": {"key.pem": "eA=="}}
    assert "secret" in check(secret)


@pytest.mark.parametrize(
    ("args", "said"),
    [(["fitt"], "no command 'fitt'"), (["info"], "MODEL"), (["info", "/data/m.json", "--proba"], "--proba")],
)
def test_validator_finds_wrong_commands(validate, args, said):
    assert said in validate.command_problem({"command": ["daskglm"], "args": args})


def test_gpu_overlay_computes_on_gpus(validate):
    made = {each["kind"]: each for source, each in validate.resources() if source == "kustomize gpu"}
    if not made:
        pytest.skip("kubectl is not here")
    for kind in ("Job", "StatefulSet"):
        pod = made[kind]["spec"]["template"]["spec"]
        assert pod["containers"][0]["args"][-2:] == ["--device", "cuda"]
        images = {each["image"] for each in [*pod.get("initContainers", []), *pod["containers"]]}
        assert images == {"daskglm:0.1.0-cuda13"}
    worker = made["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]
    assert worker["resources"]["limits"] == {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}


def test_images_hold_the_sources_only():
    for name in ("Dockerfile", "Dockerfile.cuda"):
        rules = [line for line in (FOLDER / f"{name}.dockerignore").read_text().splitlines() if line[0] != "#"]
        assert rules[0] == "*"
        # what the image copies is there, and allowed into the build
        copied = [
            part
            for line in (FOLDER / name).read_text().splitlines()
            if line.startswith("COPY ")
            for part in line.split()[1:-1]
        ]
        assert sorted(copied) == sorted(rule[1:] for rule in rules if rule[0] == "!")
        assert all((FOLDER.parents[1] / part).exists() for part in copied)
