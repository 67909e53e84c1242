"""Check the manifests of this folder without a cluster.

Checked are the schemas, rules that schemas do not have, and the command lines of daskglm. This
needs kubernetes-validate and the resource definitions of dask-kubernetes, installed or unpacked
from its wheel:

    pip install kubernetes-validate==1.37.0 dask-kubernetes==2026.3.0
    python deploy/kubernetes/validate.py [--crds FOLDER]

Prints one line per resource; the exit code is 1 if something is wrong.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import yaml

HERE = Path(__file__).resolve().parent
OVERLAYS = ("base", "gpu")
KUBERNETES = "1.37"

# Folder of the resource definitions within dask_kubernetes.
CRDS = "operator/deployment/helm/dask-kubernetes-operator/crds"

# Variables that the operator sets in every container of a worker.
OPERATOR_SETS = {"DASK_WORKER_NAME", "DASK_SCHEDULER_ADDRESS"}
Schemas = Mapping[tuple[str, str], dict[str, Any]]


# ---- definitions of Dask's resources
def crd_folder(given: Path | None) -> Path:
    """Return the given folder of definitions, or that of an installed dask-kubernetes."""
    if given is not None:
        return given
    found = importlib.util.find_spec("dask_kubernetes")
    if found is None or not found.submodule_search_locations:
        raise ImportError(
            "dask_kubernetes is not installed: give --crds, the folder of its resource definitions"
        )
    return Path(found.submodule_search_locations[0]) / CRDS


def read_crds(folder: Path) -> Schemas:
    """Read schemas by apiVersion and kind; keys that they do not list are forbidden."""
    schemas = {}
    for file in sorted(folder.glob("*.yaml")):
        for crd in _documents(file.read_text()):
            spec = crd["spec"]
            for version in spec["versions"]:
                schema = _strict(version["schema"]["openAPIV3Schema"])
                schema["properties"] |= {
                    "apiVersion": {},
                    "kind": {},
                    "metadata": {"type": "object"},
                }
                schemas[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema
    if not schemas:
        raise FileNotFoundError(f"{folder} has no resource definitions")
    return schemas


def _strict(schema: Any) -> Any:
    """Return a schema that forbids unknown keys, which the API server would drop silently."""
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: _strict(value) for key, value in schema.items()}
    known = isinstance(schema.get("properties"), dict) and schema.get("type") == "object"
    if known and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        schema.pop("type", None)
    return schema


# ---- one resource
def problems(resource: Mapping[str, Any], schemas: Schemas) -> list[str]:
    """Return everything that is wrong with a resource."""
    found = _by_schema(resource, schemas)
    if found:
        # the other checks expect a resource of the right form
        return found
    if resource["kind"] == "Secret":
        found.append("a secret has no place here")
    if resource["kind"] == "DaskCluster":
        found += _operator(resource)
    if (template := resource.get("spec", {}).get("template")) and (
        select := resource["spec"].get("selector")
    ):
        labels = template["metadata"]["labels"]
        if not select["matchLabels"].items() <= labels.items():
            found.append("the selector does not match the labels of the pods")
    for pod, more in _pods(resource):
        found += _pod(pod, more)
    return found


def _by_schema(resource: Mapping[str, Any], schemas: Schemas) -> list[str]:
    schema = schemas.get((resource["apiVersion"], resource["kind"]))
    if schema is not None:
        errors = jsonschema.Draft202012Validator(schema).iter_errors(resource)
        return [f"{_dotted(error.absolute_path)}: {error.message}" for error in errors]
    try:
        kubernetes_validate.validate(copy.deepcopy(dict(resource)), KUBERNETES, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [f"{_dotted(error.absolute_path)}: {error.message}"]
    except kubernetes_validate.SchemaNotFoundError as error:
        return [error.message]
    return []


def _pods(resource: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], set[str]]]:
    """Yield the specifications of pods, and the variables that they are given besides their own."""
    spec = resource.get("spec", {})
    if resource["kind"] == "DaskCluster":
        yield spec["scheduler"]["spec"], set()
        yield spec["worker"]["spec"], OPERATOR_SETS
    elif "template" in spec:
        yield spec["template"]["spec"], set()


def _pod(pod: Mapping[str, Any], given: set[str]) -> list[str]:
    found = []
    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        name = container["name"]
        size = container.get("resources", {})
        limits = size.get("limits", {})
        if (
            size.get("requests") != limits
            or not str(limits.get("cpu", "")).isdigit()
            or "memory" not in limits
        ):
            found.append(
                f"{name}: without equal requests and limits, CPUs whole, no CPUs are its own"
            )
        if missing := {mount["name"] for mount in container.get("volumeMounts", [])} - volumes:
            found.append(f"{name}: no volume {', '.join(sorted(missing))}")
        known = given | {variable["name"] for variable in container.get("env", [])}
        used = set(re.findall(r"\$\((\w+)\)", " ".join(_command(container))))
        # Kubernetes would pass an unknown variable on as it is written
        if unknown := used - known:
            found.append(f"{name}: no variable {', '.join(sorted(unknown))}")
    return found


def _operator(cluster: Mapping[str, Any]) -> list[str]:
    """Return what dask-kubernetes would refuse or misread, after its controller.py."""
    name = cluster["metadata"]["name"]
    scheduler = cluster["spec"]["scheduler"]
    worker = cluster["spec"]["worker"]
    found = []
    if scheduler["service"].get("selector") != {
        "dask.org/cluster-name": name,
        "dask.org/component": "scheduler",
    }:
        found.append("the service does not select the scheduler")
    ports = {
        port["name"] for each in scheduler["spec"]["containers"] for port in each.get("ports", [])
    }
    wanted = {port["name"]: port.get("targetPort") for port in scheduler["service"]["ports"]}
    if "tcp-comm" not in wanted or not set(wanted.values()) <= ports:
        found.append("the service has no port tcp-comm, or one that the scheduler has not")
    if "$(DASK_WORKER_NAME)" not in _command(worker["spec"]["containers"][0]):
        found.append("workers have to be given --name $(DASK_WORKER_NAME)")
    return found


def _command(container: Mapping[str, Any]) -> list[str]:
    return [*container.get("command", []), *container.get("args", [])]


def _dotted(path: Any) -> str:
    return ".".join(map(str, path)) or "top"


# ---- command lines
def command_problem(container: Mapping[str, Any]) -> str | None:
    """Return the error of daskglm about a container's command line; None if there is none.

    Raises LookupError if daskglm, or its command, is not installed.
    """
    import click

    try:
        from daskglm.cli import main
    except ImportError as error:
        raise LookupError(f"daskglm is not installed ({error})") from error
    variables = {variable["name"]: _example(variable) for variable in container.get("env", [])}
    arguments = [
        re.sub(r"\$\((\w+)\)", lambda m: variables.get(m[1], "x"), part)
        for part in _command(container)[1:]
    ]
    # some options want a path that exists: a temporary folder stands for the volumes
    with tempfile.TemporaryDirectory() as folder:
        mounts = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
        for path in mounts:
            (Path(folder) / path.lstrip("/")).mkdir(parents=True)
        arguments = [
            folder + part if any(f"{part}/".startswith(f"{path}/") for path in mounts) else part
            for part in arguments
        ]
        command: click.Command = main
        while isinstance(command, click.Group):
            name, *arguments = arguments or [""]
            chosen = command.get_command(click.Context(command), name)
            if chosen is None and name == "cluster":
                raise LookupError("this daskglm has no `cluster` commands")
            if chosen is None:
                return f"no command {name!r}"
            command = chosen
        try:
            command.make_context(command.name, arguments)
        except click.ClickException as error:
            return error.format_message()
    return None


def _example(variable: Mapping[str, Any]) -> str:
    """Return a value that the variable could have."""
    if "value" in variable:
        return str(variable["value"])
    source = variable.get("valueFrom", {})
    if "resourceFieldRef" in source:
        return "1"
    path = source.get("fieldRef", {}).get("fieldPath", "x")
    # a worker refuses an address that its machine does not have
    return "127.0.0.1" if path == "status.podIP" else str(path)


# ---- all of them
def resources() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each resource with its source: the files and, with kubectl, what kustomize makes.

    The files of gpu/ are patches, and are checked by way of kustomize only.
    """
    for file in sorted([*HERE.glob("*.yaml"), *HERE.glob("base/*.yaml")]):
        if file.name != "kustomization.yaml":
            for resource in _documents(file.read_text()):
                yield str(file.relative_to(HERE)), resource
    for overlay in OVERLAYS:
        if shutil.which("kubectl") is None:
            print(f"kustomize {overlay}: not checked, kubectl is not here")
            continue
        made = subprocess.run(
            ["kubectl", "kustomize", str(HERE / overlay)],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            raise ValueError(f"kustomize {overlay}: {made.stderr.strip()}")
        for resource in _documents(made.stdout):
            yield f"kustomize {overlay}", resource


def _documents(text: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(text) if document]


def main(arguments: list[str] | None = None) -> int:
    """Check all resources, print a line for each, and return the exit code."""
    parser = argparse.ArgumentParser(description="Check the manifests of this folder.")
    parser.add_argument("--crds", type=Path, help="folder of dask-kubernetes' resource definitions")
    schemas = read_crds(crd_folder(parser.parse_args(arguments).crds))
    bad = 0
    for source, resource in resources():
        found = problems(resource, schemas)
        note = "ok"
        containers = [
            each
            for pod, _ in _pods(resource)
            for each in [*pod.get("initContainers", []), *pod["containers"]]
        ]
        for container in [] if found else containers:
            if _command(container)[:1] != ["daskglm"]:
                continue
            try:
                said = command_problem(container)
            except LookupError as error:
                note = f"ok, commands not checked: {error}"
            else:
                note = "ok, commands too" if note == "ok" else note
                found += [f"{container['name']}: {said}"] if said else []
        bad += bool(found)
        print(
            f"{source}: {resource['kind']}/{resource['metadata']['name']}: "
            f"{'; '.join(found) or note}"
        )
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
