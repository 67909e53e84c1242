"""The manifests in `deploy/kubernetes` are right, and its validator does find what is wrong."""

import copy
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def validate():
    spec = importlib.util.spec_from_file_location("validate_kubernetes", FOLDER / "validate.py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        module.crd_folder(_crds())
    except ImportError as error:
        pytest.skip(
            f"kubernetes-validate and dask-kubernetes (or DASKGLM_CRDS) are needed: {error}"
        )
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
    done = subprocess.run(
        [sys.executable, FOLDER / "validate.py", *given],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for part in (
        "DaskCluster/daskglm: ok",
        "Job/daskglm-fit: ok",
        "StatefulSet/daskglm-worker: ok",
    ):
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
        (
            "daskcluster-gpu.yaml",
            "DaskCluster",
            [*WORKER, "resources", "limits", "nvidia.com/gpu"],
            1,
            "gpu: 1 is not",
        ),
        (
            "daskcluster.yaml",
            "DaskCluster",
            ["spec", "worker", "replicas"],
            "four",
            "'four' is not",
        ),
        ("base/workers.yaml", "StatefulSet", ["spec", "replicas"], "four", "'four' is not"),
        ("base/workers.yaml", "StatefulSet", [*POD, "resource"], {}, "resource"),
        (
            "daskcluster.yaml",
            "DaskCluster",
            [*WORKER, "args"],
            ["cluster", "workers"],
            "DASK_WORKER_NAME",
        ),
        ("daskcluster.yaml", "DaskCluster", ["metadata", "name"], "other", "select"),
        ("base/workers.yaml", "StatefulSet", [*POD, "resources", "limits", "cpu"], "5", "equal"),
        (
            "base/workers.yaml",
            "StatefulSet",
            [*POD, "env"],
            [],
            "no variable CPUS, POD_IP, POD_NAME",
        ),
        (
            "base/scheduler.yaml",
            "Deployment",
            ["spec", "template", "spec", "volumes"],
            [],
            "no volume tls, tmp",
        ),
        (
            "base/scheduler.yaml",
            "Deployment",
            ["spec", "selector", "matchLabels"],
            {"a": "b"},
            "selector",
        ),
    ],
)
def test_validator_finds_mistakes(check, load, source, kind, path, value, said):
    resource = load(source, kind)
    assert check(resource) == ""
    _change(resource, path, value)
    assert said in check(resource)


def test_validator_finds_secrets(check):
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "daskglm-tls"},
        "data": {"key.pem": "eA=="},
    }
    assert "secret" in check(secret)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["fitt"], "no command 'fitt'"),
        (["info"], "MODEL"),
        (["info", "/data/m.json", "--proba"], "--proba"),
    ],
)
def test_validator_finds_wrong_commands(validate, args, said):
    assert said in validate.command_problem({"command": ["daskglm"], "args": args})


def test_gpu_overlay_computes_on_gpus(validate):
    made = {
        each["kind"]: each for source, each in validate.resources() if source == "kustomize gpu"
    }
    if not made:
        pytest.skip("kubectl is not here")
    for kind in ("Job", "StatefulSet"):
        pod = made[kind]["spec"]["template"]["spec"]
        assert pod["containers"][0]["args"][-2:] == ["--device", "cuda"]
        images = {each["image"] for each in [*pod.get("initContainers", []), *pod["containers"]]}
        assert images == {"daskglm:0.2.0-cuda13"}
    worker = made["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]
    assert worker["resources"]["limits"] == {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}


def test_images_hold_the_sources_only():
    for name in ("Dockerfile", "Dockerfile.cuda"):
        rules = [
            line
            for line in (FOLDER / f"{name}.dockerignore").read_text().splitlines()
            if line[0] != "#"
        ]
        assert rules[0] == "*"
        # what the image copies is there, and allowed into the build
        copied = {
            part.removeprefix("./")
            for line in (FOLDER / name).read_text().splitlines()
            if line.startswith("COPY ") and "--from=" not in line
            for part in line.split()[1:-1]
        }
        assert sorted(copied) == sorted(rule[1:] for rule in rules if rule[0] == "!")
        assert all((FOLDER.parents[1] / part).exists() for part in copied)


def test_the_commands_of_the_containers_run_as_plain_processes(load, tmp_path):
    """Scheduler, two workers, and the Job's two containers, with paths and addresses of this machine in their place."""
    pandas = pytest.importorskip("pandas")
    from daskglm.launch import tls

    tls.make_certificates(tmp_path / "tls")
    (tmp_path / "data").mkdir()
    rows = pandas.DataFrame(
        {"a": [0.0, 1.0, 2.0, 3.0] * 50, "b": [1.0, 0.0] * 100, "label": [0, 0, 1, 1] * 50}
    )
    rows.to_parquet(tmp_path / "data" / "train.parquet", index=False)
    here = {
        "/tls": f"{tmp_path}/tls",
        "/data/": f"{tmp_path}/data/",
        "daskglm-scheduler": "127.0.0.1",
        "8786": "18786",
    }
    here |= {"$(POD_IP)": "127.0.0.1", "$(CPUS)": "1"}

    def command(container, name):
        found = []
        for part in map(str, container["args"]):
            for old, new in {**here, "$(POD_NAME)": name}.items():
                part = part.replace(old, new)
            found.append(part)
        return [sys.executable, "-m", "daskglm", *found]

    def containers(kind, which="containers"):
        file = {"Deployment": "scheduler", "StatefulSet": "workers", "Job": "fit"}[kind]
        return load(f"base/{file}.yaml", kind)["spec"]["template"]["spec"][which]

    started = [command(containers("Deployment")[0], "scheduler")]
    started += [command(containers("StatefulSet")[0], f"worker-{k}") for k in range(2)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = [subprocess.Popen(each, **quiet) for each in started]
    try:
        for which in ("initContainers", "containers"):
            (container,) = containers("Job", which)
            done = subprocess.run(
                command(container, "fit"), capture_output=True, text=True, timeout=200
            )
            assert done.returncode == 0, done.stderr
        assert (tmp_path / "data" / "model.json").exists()
        assert "rounds" in done.stdout
        assert ", 0 bytes reduced" not in done.stdout
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait(30)
