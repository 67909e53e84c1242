"""The command line with files and arguments that are wrong: one line that names the file, no traceback, nothing replaced."""

import bz2
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import dask
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.datasets import dump_svmlight_file

from daskglm.cli import main
from daskglm.estimators.logistic import LogisticRegression
from daskglm.estimators.persistence import load, save
from tests.conftest import make_problem

ROOT = Path(__file__).resolve().parents[1]
ESC = "\x1b]0;owned\x07\x9b2J"


@pytest.fixture(autouse=True)
def small_threads():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def model(tmp_path):
    save(LogisticRegression().fit(*make_problem(60, 2)), tmp_path / "m.json")
    return tmp_path / "m.json"


@pytest.fixture
def svm(tmp_path):
    dump_svmlight_file(*make_problem(60, 2), str(tmp_path / "train.svm"), zero_based=False)
    return tmp_path / "train.svm"


def run(*args):
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def one_error(result, *words, code=1):
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert result.stderr[:-1].isprintable()
    for word in words:
        assert word in result.stderr, result.stderr


# ---- data
TEXT = b"a,b,y\n" + b"1,2,0\n2,1,1\n" * 500
SVM = b"1 1:1 2:2\n-1 1:2 2:1\n" * 500
FILES = {
    "cut.csv.gz": (gzip.compress(TEXT)[:60], "damaged, or not packed as its name says"),
    "false.csv.gz": (TEXT, "damaged, or not packed as its name says"),
    "false.csv.bz2": (TEXT, "damaged, or not packed as its name says"),
    "false.csv.xz": (TEXT, "damaged, or not packed as its name says"),
    "latin.csv": (b"a,b,y\n1,2,0\n3,4,caf\xe9\n", "line 3: not UTF-8"),
    "utf16.csv": ("a,b,y\n1,2,0\n".encode("utf-16"), "line 1: not UTF-8"),
    "empty.csv": (b"", "the file is empty"),
    "long.csv": (b"a,b,y\n1,2,0\n2,3,4,5,1\n3,4,0\n", "line 3, saw 5"),
    "shifted.csv": (
        b"a,b,y\n1,2,3,0\n2,3,4,1\n",
        "rows of different lengths, or no CSV: Expected 3 fields in line 2, saw 4",
    ),
    "none.parquet": (b"hello, world", "no Parquet file, or a damaged one"),
    "cut.svm.gz": (gzip.compress(SVM)[:60], "damaged, or not packed as its name says"),
    "false.svm.gz": (SVM, "damaged, or not packed as its name says"),
    "false.svm.bz2": (SVM, "damaged, or not packed as its name says"),
    "cut.svm.bz2": (bz2.compress(SVM)[:-20], "damaged, or not packed as its name says"),
    "false.svm.xz": (SVM, "damaged, or not packed as its name says"),
    "empty.svm": (b"", "empty"),
    "binary.svm": (bytes(range(256)), "binary.svm, line 1"),
    "escape.svm": (b"1 1:\x1b]0;owned\x07\n", "escape.svm, line 1"),
}


@pytest.mark.parametrize("name", list(FILES))
def test_files_that_cannot_be_read_are_named(name, tmp_path, model):
    content, message = FILES[name]
    (tmp_path / name).write_bytes(content)
    one_error(run("fit", tmp_path / name, "--out", tmp_path / "new.json"), name, message)
    one_error(run("predict", model, tmp_path / name, "--out", tmp_path / "p.csv"), name)
    assert not (tmp_path / "new.json").exists()
    assert not (tmp_path / "p.csv").exists()


def test_the_bad_file_of_many_is_named(tmp_path):
    for k in range(3):
        (tmp_path / f"{k}.csv").write_bytes(TEXT)
    (tmp_path / "1.csv").write_bytes(TEXT + b"1,2,\xff\n")
    one_error(
        run("fit", tmp_path / "*.csv", "--out", tmp_path / "new.json"),
        "1.csv, line 1002: not UTF-8",
    )
    (tmp_path / "1.csv").write_bytes(TEXT + b"1,2,3,4,5\n")
    one_error(
        run("fit", tmp_path / "*.csv", "--out", tmp_path / "new.json"),
        "1.csv: rows of different lengths",
    )


def test_a_folder_with_a_file_that_is_no_parquet(tmp_path):
    (tmp_path / "data").mkdir()
    frame = pd.DataFrame({"a": [1.0, 2.0], "y": [0, 1]})
    frame.to_parquet(tmp_path / "data" / "0.parquet")
    (tmp_path / "data" / "1.parquet").write_bytes(b"hello, world")
    one_error(
        run("fit", tmp_path / "data", "--out", tmp_path / "new.json"), "1.parquet: no Parquet file"
    )


def test_data_in_a_pipe(tmp_path, model):
    os.mkfifo(tmp_path / "pipe.svm")
    for path in (tmp_path / "pipe.svm", "/dev/zero"):
        one_error(
            run("fit", path, "--format", "csv", "--out", tmp_path / "new.json"),
            "is a pipe or a device",
        )
        one_error(
            run("predict", model, path, "--format", "svmlight", "--out", tmp_path / "p.csv"),
            "is a pipe",
        )


def test_data_without_rows(tmp_path):
    (tmp_path / "head.csv").write_text("a,b,y\n")
    one_error(run("fit", tmp_path / "head.csv", "--out", tmp_path / "new.json"))


# ---- models
def test_info_of_a_bad_model_prints_one_line_only(model, tmp_path):
    whole = json.loads(model.read_text())
    for name, change in (
        ("why", {"report": {**whole["report"], "why": ESC}}),
        ("C", {"record": {**whole["record"], "C": -1}}),
        ("tol", {"params": {**whole["params"], "tol": -1}}),
        ("classes", {"classes": {"dtype": "<U9", "values": [ESC, "a"]}}),
        ("estimator", {"estimator": ESC}),
        ("version", {"version": ESC}),
        ("names", {"feature_names": [ESC]}),
    ):
        (tmp_path / name).write_text(json.dumps({**whole, **change}))
        one_error(run("info", tmp_path / name), str(tmp_path / name))
        one_error(
            run("predict", tmp_path / name, "x.svm", "--out", tmp_path / "p.csv"),
            str(tmp_path / name),
        )
    for content in (b"", b"\x00" * 100, b"[]", b"\x80\x04K\x01.", b"[" * 100_000):
        (tmp_path / "bad").write_bytes(content)
        one_error(run("info", tmp_path / "bad"), "bad is not a daskglm model")
    os.mkfifo(tmp_path / "pipe")
    one_error(run("info", tmp_path / "pipe"), "pipe")
    one_error(run("info", tmp_path), "a folder")
    one_error(run("info", tmp_path / "none"), "none")


def test_labels_reach_a_terminal_as_escapes(tmp_path):
    X, y = make_problem(60, 2)
    model = LogisticRegression().fit(X, y)
    model.classes_ = np.array(["a", f"b{ESC}\u202e"], dtype=object)
    save(model, tmp_path / "m.json")
    assert load(tmp_path / "m.json").classes_[1] == f"b{ESC}\u202e"
    shown = run("info", tmp_path / "m.json").stdout
    assert "\\x1b]0;owned\\x07\\x9b2J\\u202e" in shown
    assert all(line.isprintable() for line in shown.splitlines())
    frame = pd.DataFrame({f"x{ESC}": [1.0], "b": [2.0]})
    frame.to_csv(tmp_path / "d.csv", index=False)
    one_error(
        run(
            "predict",
            tmp_path / "m.json",
            tmp_path / "d.csv",
            "--label",
            ESC,
            "--out",
            tmp_path / "p.csv",
        )
    )


# ---- what is written to
@pytest.mark.parametrize("command", ["fit", "predict"])
def test_out_replaces_no_special_file(command, svm, model, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    inputs = [svm] if command == "fit" else [model, svm]
    for out in (tmp_path / "pipe", tmp_path, "/dev/full", "/dev/null"):
        before = os.stat(out).st_mode
        one_error(run(command, *inputs, "--out", out), "a folder, a pipe or a device")
        assert os.stat(out).st_mode == before
    one_error(run(command, *inputs, "--out", tmp_path / "none" / "x"), "the folder does not exist")
    one_error(
        run(command, tmp_path / "none.svm", *inputs[1:], "--out", "/dev/full"), "/dev/full"
    )  # before any work
    for path in inputs:
        before = path.read_bytes()
        one_error(run(command, *inputs, "--out", path), "is a file that this command reads")
        assert path.read_bytes() == before
    assert not list(tmp_path.glob(".*"))


# ---- arguments
@pytest.mark.parametrize(
    "args",
    [
        ["fit", "x.svm", "--out", ""],
        ["fit", "", "--out", "m"],
        ["fit", "x.svm", "--out", "m", "--scheduler", ""],
        ["fit", "x.svm", "--out", "m", "--checkpoint", ""],
        ["fit", "x.svm", "--out", "m", "--resume", " "],
        ["fit", "x.csv", "--out", "m", "--label", ""],
        ["fit", "x.svm", "--out", "m", "--workers", "1000000"],
        ["fit", "x.svm", "--out", "m", "--C", "nan"],
        ["fit", "x.svm", "--out", "m", "--C", "1e"],
        ["fit", "x.svm", "--out", "m", "--n-features", "-1"],
        ["fit", "x.svm", "--out", "m", "--max-iter", "9" * 5000],
        ["predict", "", "x.svm", "--out", "p"],
        ["predict", "m", "", "--out", "p"],
        ["info", ""],
        ["cluster", "local", "--timeout", "nan"],
        ["cluster", "check", "tcp://127.0.0.1:1", "--timeout", "nan"],
        ["cluster", "workers", "--plan", "--memory", "-1GB"],
        ["cluster", "workers", "--plan", "--memory", "1e400"],
    ],
)
def test_arguments_that_are_none_exit_2(args, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DASK_SCHEDULER_ADDRESS", raising=False)
    result = run(*args)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", [["workers", "--plan"], ["local"]])
@pytest.mark.parametrize("count", ["--threads", "--workers"])
def test_a_million_of_anything_is_refused(command, count):
    one_error(
        run("cluster", *command, count, "1000000"),
        f"{count[2:]}=1000000 is more than 16 for each of the",
    )


@pytest.mark.parametrize(
    "more",
    [
        ["--checkpoint-every", "²"],
        ["--checkpoint-every", "0"],
        ["--device-memory-limit", "lots"],
        ["--resume", "none"],
        ["--n-features", "9" * 30],
        ["--format", "parquet"],
        ["--format", "csv"],
    ],
)
def test_values_that_no_fit_can_use_exit_1(more, svm, tmp_path):
    one_error(run("fit", svm, *more, "--out", tmp_path / "m.json"))
    assert not (tmp_path / "m.json").exists()


def test_nothing_of_a_file_name_is_a_command_to_the_terminal(tmp_path):
    for name in (f"x{ESC}.svm", f"x{ESC}.csv", f"x{ESC}.parquet", "x\udcff.svm"):
        result = run("fit", tmp_path / name, "--out", tmp_path / "m.json")
        assert result.exit_code == 1
        assert result.stderr[:-1].isprintable(), repr(result.stderr)


# ---- processes
def process(*args, timeout=200, **more):
    command = [sys.executable, "-m", "daskglm", *map(str, args)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, check=False, **more
    )


@pytest.mark.slow
def test_bad_rows_on_workers_are_one_line(tmp_path):
    (tmp_path / "nan.svm").write_text("1 1:1 2:nan\n-1 1:2 2:1\n1 1:3\n")
    done = process("fit", "nan.svm", "--workers", 2, "--out", "m.json", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: X contains NaN: partition 0, row 0, column 1")
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stdout == ""


@pytest.mark.nightly
def test_schedulers_that_are_none(svm, tmp_path):
    for address in ("garbage://x:1", "tcp://127.0.0.1:1", "tcp://", "://"):
        environment = {**os.environ, "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "1s"}
        done = process(
            "fit", svm, "--scheduler", address, "--out", tmp_path / "m.json", env=environment
        )
        assert done.returncode == 1, (address, done.stderr)
        assert done.stderr.startswith("error: "), done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
