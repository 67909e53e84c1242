"""The structure: imports go down only, files and functions keep to their budgets, optional packages stay in one place."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "daskglm"
FILE_LINES, FUNCTION_LINES = 400, 60

FLOORS = {
    "compiled": 0,
    "losses": 0,
    "arguments": 0,
    "duals": 0,
    "convex": 0,
    "topology": 0,
    "batch_requests": 0,
    "decisions": 0,
    "report": 0,
    "npz": 0,
    "schema": 1,
    "facts": 0,
    "messages": 1,
    "kernels": 1,
    "kernels.host": 1,
    "kernels.cuda": 1,
    "kernels.cuda.launch": 1,
    "kernels.cuda.signature": 0,
    "kernels.cuda.memory": 1,
    "kernels.cuda.dense": 1,
    "kernels.cuda.csr": 1,
    "kernels.cuda.margins": 1,
    "kernels.cuda.streamed": 1,
    "kernels.cuda.ball": 1,
    "kernels.cuda.collective": 1,
    "kernels.cuda.points": 1,
    "kernels.cuda.dual": 1,
    "kernels.dense": 1,
    "kernels.gram": 1,
    "kernels.columns": 1,
    "kernels.vectors": 1,
    "kernels.csr": 1,
    "kernels.structure": 1,
    "kernels.margins": 1,
    "kernels.dual": 1,
    "kernels.many": 1,
    "kernels.many_csr": 1,
    "folds": 1,
    "joint_rows": 1,
    "held_out_rows": 1,
    "chunks": 0,
    "dealing": 1,
    "epochs": 1,
    "ascent": 1,
    "dual_rows": 1,
    "containers": 0,
    "values": 1,
    "frames": 1,
    "sparse_rows": 1,
    "blocks": 1,
    "placing": 1,
    "respond": 1,
    "samples": 1,
    "memos": 1,
    "streaming": 1,
    "sessions": 1,
    "ranks": 1,
    "presence": 1,
    "svmlight": 1,
    "aligned": 2,
    "inputs": 2,
    "engine": 2,
    "room": 2,
    "cluster": 2,
    "collective": 2,
    "waiting": 2,
    "sending": 2,
    "spreading": 2,
    "versions": 2,
    "whereabouts": 2,
    "dealt": 2,
    "targets": 3,
    "bounds": 3,
    "joint": 3,
    "objective": 3,
    "dual": 3,
    "states": 3,
    "checkpoints": 4,
    "driver": 4,
    "coefficients": 4,
    "progress": 4,
    "solvers": 4,
    "solvers.auto": 4,
    "solvers.constant": 4,
    "solvers.gradient_descent": 4,
    "solvers.lbfgs": 4,
    "solvers.linear": 4,
    "solvers.newton": 4,
    "solvers.sdca": 4,
    "solvers.staged": 4,
    "solvers.proximal": 4,
    "solvers.tron": 4,
    "solvers.together": 4,
    "engines": 4,
    "settings": 5,
    "names": 5,
    "problems": 5,
    "splits": 5,
    "scoring": 5,
    "training": 5,
    "unpenalised": 5,
    "family": 6,
    "predict": 5,
    "scores": 5,
    "estimators": 6,
    "several": 6,
    "logistic": 7,
    "svm": 7,
    "ridge": 7,
    "paths": 7,
    "validation": 7,
    "crossvalidated": 8,
    "fit": 8,
    "saving": 8,
    "launch": 6,
    "launch.addresses": 5,
    "launch.machine": 6,
    "launch.tls": 6,
    "launch.processes": 6,
    "launch.ssh": 6,
    "launch.ready": 6,
    "launch.commands": 7,
    "datafiles": 8,
    "cli": 9,
    "__main__": 10,
    "": 9,  # the package itself
}
WITHIN = {  # edges between modules of one floor
    ("sparse_rows", "kernels"), ("sparse_rows", "kernels.structure"), ("sparse_rows", "values"), ("blocks", "sparse_rows"), ("blocks", "values"), ("frames", "values"), ("frames", "kernels"), ("blocks", "frames"),
    ("blocks", "kernels"), ("blocks", "messages"), ("respond", "blocks"), ("respond", "kernels"),
    ("respond", "messages"), ("sessions", "respond"), ("sessions", "messages"), ("sessions", "presence"), ("sessions", "kernels"), ("sessions", "blocks"), ("kernels", "kernels.host"), ("kernels", "kernels.cuda"),
    ("kernels.dense", "kernels.vectors"), ("kernels.dense", "kernels.gram"), ("kernels.gram", "kernels.vectors"), ("kernels.gram", "kernels.columns"),
    ("kernels.columns", "kernels.vectors"), ("kernels.many", "kernels.columns"), ("kernels.many", "kernels.vectors"),
    ("kernels.host", "kernels"), ("kernels.host", "kernels.dense"), ("kernels.host", "kernels.csr"), ("kernels.host", "kernels.margins"),
    *((f"kernels.cuda{a}", f"kernels.cuda{b}") for a, b in (
        ("", ".ball"), ("", ".collective"), ("", ".csr"), ("", ".dense"), ("", ".margins"), ("", ".memory"), ("", ".streamed"), ("", ".launch"), ("", ".points"), (".points", ".launch"),
        (".collective", ".memory"), (".ball", ".launch"), (".ball", ".memory"), (".csr", ".dense"), (".csr", ".launch"), (".dense", ".launch"),
        (".margins", ".launch"), (".streamed", ".csr"), (".streamed", ".dense"),
        (".streamed", ".launch"), ("", ".dual"), (".dual", ".csr"), (".dual", ".dense"), (".dual", ".streamed"), (".dual", ".margins"), (".dual", ".launch"), *((f".{name}", "") for name in ("ball", "collective", "csr", "dense", "dual", "margins", "memory", "points", "streamed")),
    )),
    ("held_out_rows", "blocks"), ("held_out_rows", "folds"), ("held_out_rows", "kernels"), ("held_out_rows", "messages"), ("held_out_rows", "samples"), ("respond", "held_out_rows"), ("folds", "blocks"), ("folds", "messages"), ("joint_rows", "blocks"),
    ("kernels.many_csr", "kernels.vectors"), ("kernels.dual", "kernels.vectors"), ("joint_rows", "folds"), ("joint_rows", "kernels"), ("joint_rows", "kernels.columns"), ("joint_rows", "kernels.host"),
    ("joint_rows", "kernels.many"), ("joint_rows", "kernels.many_csr"), ("joint_rows", "messages"), ("kernels.many_csr", "kernels.many"), ("respond", "folds"), ("respond", "joint_rows"),
    ("placing", "blocks"), ("placing", "kernels"), ("respond", "placing"), ("respond", "samples"), ("respond", "memos"), ("memos", "ascent"), ("memos", "blocks"), ("memos", "folds"), ("memos", "joint_rows"), ("memos", "kernels"), ("memos", "messages"), ("sessions", "memos"), ("streaming", "memos"), ("samples", "blocks"), ("samples", "kernels"), ("respond", "kernels.host"), ("sessions", "placing"),
    ("validation", "logistic"), ("problems", "settings"), ("names", "settings"), ("training", "problems"), ("training", "settings"),
    ("launch.ready", "launch"), ("launch.ready", "launch.tls"), ("duals", "losses"), ("dealing", "messages"), ("epochs", "dealing"), ("epochs", "kernels"), ("epochs", "messages"),
    ("epochs", "kernels.dual"), ("streaming", "respond"), ("streaming", "blocks"), ("streaming", "messages"), ("streaming", "kernels"), ("streaming", "placing"), ("sessions", "streaming"),
    ("sending", "inputs"), ("sending", "waiting"), ("cluster", "sending"), ("cluster", "spreading"), ("dealt", "waiting"), ("whereabouts", "waiting"), ("cluster", "waiting"), ("cluster", "versions"), ("dealt", "whereabouts"), ("cluster", "whereabouts"), ("whereabouts", "room"), ("room", "inputs"), ("ascent", "messages"), ("ascent", "kernels"), ("chunks", "npz"), ("driver", "checkpoints"), ("dual_rows", "dealing"), ("dual_rows", "epochs"), ("dual_rows", "kernels"), ("dual_rows", "messages"),
    ("driver", "coefficients"), ("training", "unpenalised"), ("duals", "compiled"),
    ("dual_rows", "kernels.dual"), ("respond", "dual_rows"), ("kernels.cuda.dual", "messages"), ("kernels.cuda.collective", "messages"), ("ranks", "kernels"), ("ranks", "messages"), ("ranks", "respond"), ("ranks", "sessions"), ("cluster", "collective"), ("respond", "ascent"), ("dual", "objective"), ("joint", "bounds"), ("dual", "bounds"), ("objective", "bounds"),
    ("respond", "kernels.margins"), ("cluster", "inputs"), ("inputs", "aligned"), ("scores", "predict"), ("progress", "driver"), ("cli", ""),
    ("solvers", "solvers.gradient_descent"), ("solvers.staged", "solvers.lbfgs"), ("solvers", "solvers.newton"),
    ("solvers", "solvers.tron"), ("solvers.gradient_descent", "solvers.linear"), ("solvers.lbfgs", "solvers.linear"),
    ("solvers", "solvers.sdca"), ("solvers.auto", "solvers.lbfgs"), ("solvers.auto", "solvers.newton"), ("solvers", "solvers.staged"), ("solvers.staged", "solvers.newton"),
    ("solvers.staged", "solvers.sdca"), ("solvers.staged", "solvers.proximal"), ("solvers.staged", "solvers.tron"), ("solvers.newton", "solvers.linear"), ("solvers.tron", "solvers.linear"),
}  # fmt: skip
SOLVERS_MAY_IMPORT = {"arguments", "objective", "joint", "dual", "messages", "report", "solvers.linear"}
COMPOSES = {
    "solvers.auto": {"solvers.lbfgs", "solvers.newton"},
    "solvers.linear": {"kernels"},  # to know where a Hessian is
    "solvers.staged": {"solvers.sdca", "solvers.lbfgs", "solvers.newton", "solvers.tron", "solvers.proximal"},
}
ONLY_IN = {
    "distributed": {
        "cluster",
        "sending",
        "waiting",
        "versions",
        "whereabouts",
        "dealt",
        "engines",
        "room",
        "cli",
        "launch.ready",
        "launch.commands",
    },
    "cupy": {
        "kernels.cuda",
        *(
            f"kernels.cuda.{name}"
            for name in (
                "ball",
                "collective",
                "csr",
                "dense",
                "dual",
                "launch",
                "margins",
                "memory",
                "points",
                "streamed",
            )
        ),
    },
    "click": {"cli", "launch.commands"},
    "tqdm": {"progress"},
}


def imports(tree):
    """Every module a file imports, at the top or lazily, `from a import b` giving a and a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where a module lies"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_imports(tree, known):
    names = {name.removeprefix("daskglm").lstrip(".") for name in imports(tree) if name.split(".")[0] == "daskglm"}
    found = {name for name in names if name in known}
    # `from daskglm.kernels import csr` is an import of kernels.csr and of the package it lies in
    return found


def violations(name, source, floors):
    tree = ast.parse(source)
    for target in own_imports(tree, floors) - {name}:
        if target == "" and name != "__main__" and "import daskglm" not in source:
            continue
        if floors[target] > floors[name] or (floors[target] == floors[name] and (name, target) not in WITHIN):
            yield f"{name or 'daskglm'} (floor {floors[name]}) imports {target} (floor {floors[target]})"
    if name.startswith("solvers.") and (
        wrong := own_imports(tree, floors) - SOLVERS_MAY_IMPORT - {"", "solvers", name} - COMPOSES.get(name, set())
    ):
        yield f"{name} imports {sorted(wrong)}; solvers know only {sorted(SOLVERS_MAY_IMPORT)}"
    for package, homes in ONLY_IN.items():
        if name not in homes and any(found.split(".")[0] == package for found in imports(tree)):
            yield f"{name} imports {package}, which only {sorted(homes)} may"
    if (lines := source.count("\n")) > FILE_LINES:
        yield f"{name} has {lines} lines, more than {FILE_LINES}"
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            doc = node.body[0].end_lineno - node.body[0].lineno + 1 if ast.get_docstring(node) else 0
            if (length := node.end_lineno - node.lineno + 1 - doc) > FUNCTION_LINES:
                yield f"{name}.{node.name} has {length} lines, more than {FUNCTION_LINES}"


def modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").rstrip(".")
        yield pytest.param(name, path, id=name or "daskglm")


@pytest.mark.parametrize(("name", "path"), list(modules()))
def test_module_keeps_to_its_floor_and_budget(name, path):
    assert name in FLOORS, f"daskglm.{name} is not in the table of floors in {__file__}: give it one"
    assert not list(violations(name, path.read_text(), FLOORS))


def test_the_checker_sees_what_it_should():
    bad = "from daskglm.training import train\ndef f():\n    import distributed\n" + "x = 1\n" * 500
    found = "\n".join(violations("losses", bad, FLOORS))
    assert "floor 5" in found
    assert "distributed" in found
    assert "501" in found or "502" in found or "503" in found
    long = "def g():\n" + "    x = 1\n" * 70
    assert "71 lines" in "\n".join(violations("losses", long, FLOORS))
    assert not list(violations("solvers.new", "from daskglm.objective import Point\n", FLOORS | {"solvers.new": 4}))
    assert list(violations("solvers.new", "from daskglm.engine import Local\n", FLOORS | {"solvers.new": 4}))
