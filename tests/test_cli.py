import bz2
import csv
import json
import logging
import socket
import subprocess
import sys
from pathlib import Path

import dask
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file, load_breast_cancer, load_svmlight_file

import daskglm
from daskglm import OrdinalRegression
from daskglm.cli import COMMANDS, main
from daskglm.estimators.functional import ESTIMATORS
from daskglm.estimators.persistence import load
from tests.conftest import SHARED, make_problem


@pytest.fixture(autouse=True)
def small_threads():
    with dask.config.set(scheduler="synchronous"):
        yield


def run(*args, code=0):
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def frame(tmp_path):
    X, y = make_problem(120, 3)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["kind"] = np.where(y > 0, "yes", "no")
    frame.to_csv(tmp_path / "train.csv", index=False)
    return frame


@pytest.fixture
def svm(tmp_path):
    X, y = make_problem(120, 4)
    dump_svmlight_file(X, y, str(tmp_path / "train.svm"), zero_based=False)
    return tmp_path / "train.svm"


def read(path):
    with open(path, newline="") as file:
        header, *rows = list(csv.reader(file))
    return header, rows


@pytest.mark.slow
def test_end_to_end_in_processes(tmp_path):
    packed, path = SHARED / "libsvm_classic" / "heart_scale.bz2", tmp_path / "heart.svm"
    if packed.exists():
        path.write_bytes(bz2.decompress(packed.read_bytes()))
    else:
        X, y = load_breast_cancer(return_X_y=True)
        dump_svmlight_file(X / X.max(axis=0), 2 * y - 1, str(path), zero_based=False)

    def call(*args):
        done = subprocess.run(
            [sys.executable, "-m", "daskglm", *map(str, args)],
            capture_output=True,
            text=True,
            timeout=200,
            cwd=Path(__file__).resolve().parents[1],
        )
        assert done.returncode == 0, done.stderr
        return done

    model, out = tmp_path / "m.json", tmp_path / "p.csv"
    fitted = call("fit", path, "--out", model)
    assert "converged       yes" in fitted.stdout
    predicted = call("predict", model, path, "--out", out)
    X, y = load_svmlight_file(str(path))
    header, rows = read(out)
    labels = np.array([float(row[0]) for row in rows])
    assert header == ["prediction"]
    np.testing.assert_array_equal(labels, load(model).predict(X))
    assert f"accuracy {np.mean(labels == y):.6g}" in predicted.stderr
    assert "LogisticRegression" in call("info", model).stdout


@pytest.mark.parametrize("loss", ESTIMATORS)
def test_every_loss_has_its_model(svm, tmp_path, loss):
    run("fit", svm, "--loss", loss, "--out", tmp_path / "m.json")
    found = load(tmp_path / "m.json")
    X, y = load_svmlight_file(str(svm))
    same = clone(found).fit(X, y)
    np.testing.assert_allclose(found.coef_, same.coef_, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "squared"])
def test_losses_on_svmlight(svm, tmp_path, loss):
    model, out = tmp_path / "m.json", tmp_path / "p.csv"
    result = run(
        "fit", svm, "--loss", loss, "--C", "0.5", "--no-intercept", "--no-progress", "--out", model
    )
    assert "relative gap" in result.stdout
    fitted = load(model)
    assert np.all(fitted.intercept_ == 0)
    assert fitted.C == 0.5
    result = run("predict", model, svm, "--out", out)
    X, y = load_svmlight_file(str(svm))
    assert f"{fitted.score(X, y):.6g}" in result.stderr
    assert ("R2" if loss == "squared" else "accuracy") in result.stderr
    np.testing.assert_array_equal([float(row[0]) for row in read(out)[1]], fitted.predict(X))
    assert {path.name for path in tmp_path.iterdir()} == {"m.json", "p.csv", "train.svm"}


def test_ordered_classes_have_links(svm, tmp_path):
    model, fit = (
        tmp_path / "m.json",
        ["fit", svm, "--loss", "ordinal", "--out", tmp_path / "m.json"],
    )
    X, y = load_svmlight_file(str(svm))
    for link, wanted in ((["--link", "probit"], "probit"), ([], "logit")):
        run(*fit, *link)
        found, same = load(model), OrdinalRegression(link=wanted).fit(X, y)
        assert found.link == wanted
        np.testing.assert_allclose(found.coef_, same.coef_, rtol=1e-6)
    assert "link='sqrt'" in run(*fit, "--link", "sqrt", code=1).stderr


def test_compressed_svmlight_with_known_width(svm, tmp_path):
    packed = tmp_path / "train.bz2"
    packed.write_bytes(bz2.compress(svm.read_bytes()))
    options = ["--n-features", 6, "--one-based", "--dtype", "float32", "--class-weight", "balanced"]
    run("fit", packed, *options, "--out", tmp_path / "m.json")
    assert load(tmp_path / "m.json").coef_.shape == (1, 6)
    run("predict", tmp_path / "m.json", packed, "--out", tmp_path / "p.csv", "--one-based")


def test_csv_with_string_labels(frame, tmp_path):
    model, out = tmp_path / "m.json", tmp_path / "p.csv"
    run("fit", tmp_path / "train.csv", "--out", model)
    fitted = load(model)
    assert fitted.classes_.tolist() == ["no", "yes"]
    features = frame[["a", "b", "c"]]
    result = run("predict", model, tmp_path / "train.csv", "--label", "kind", "--out", out)
    assert read(out)[0] == ["prediction"]
    assert [row[0] for row in read(out)[1]] == fitted.predict(features).tolist()
    assert f"accuracy {fitted.score(features, frame.kind):.6g}" in result.stderr

    frame[["c", "a", "b"]].to_csv(
        tmp_path / "new.csv", index=False
    )  # another order of columns, no target
    result = run("predict", model, tmp_path / "new.csv", "--proba", "--out", out)
    assert result.stderr == ""
    header, rows = read(out)
    assert header == ["no", "yes"]
    np.testing.assert_allclose(np.array(rows, float), fitted.predict_proba(features), rtol=1e-12)
    run("predict", model, tmp_path / "new.csv", "--decision", "--out", out)
    header, rows = read(out)
    assert header == ["decision"]
    np.testing.assert_allclose(
        np.ravel(rows).astype(float), fitted.decision_function(features), rtol=1e-12
    )


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # dask's reader on pandas 3.1
def test_parquet_folder_with_named_label(frame, tmp_path):
    frame["target"] = frame.a * 2 + frame.b
    (tmp_path / "data").mkdir()
    for i in range(3):
        run_of_rows = frame[["target", "a", "b", "c"]].iloc[40 * i : 40 * (i + 1)]
        run_of_rows.to_parquet(tmp_path / "data" / f"part.{i}.parquet", index=False)
    model = tmp_path / "m.json"
    run(
        "fit",
        tmp_path / "data",
        "--loss",
        "squared",
        "--C",
        "1e6",
        "--label",
        "target",
        "--out",
        model,
    )
    result = run(
        "predict", model, tmp_path / "data", "--label", "target", "--out", tmp_path / "p.csv"
    )
    assert "R2 1 " in result.stderr
    assert len(read(tmp_path / "p.csv")[1]) == 120


def test_partitions_are_read_one_by_one(svm, tmp_path, monkeypatch):
    from daskglm.data import svmlight
    from daskglm.estimators import prediction_file

    run("fit", svm, "--out", tmp_path / "m.json")
    events = []
    reader, parse = svmlight.read_svmlight, svmlight._parse
    write = prediction_file._write_csv
    monkeypatch.setattr(
        svmlight, "read_svmlight", lambda *args, **kw: reader(*args, blocksize=2000, **kw)
    )
    monkeypatch.setattr(svmlight, "_parse", lambda *args: events.append("read") or parse(*args))
    monkeypatch.setattr(
        prediction_file, "_write_csv", lambda *args: events.append("write") or write(*args)
    )
    run("predict", tmp_path / "m.json", svm, "--one-based", "--out", tmp_path / "p.csv")
    assert len(events) > 4
    # no pass before, and the header comes first
    assert events == ["write"] + ["read", "write"] * (len(events) // 2)


def test_not_converged_is_saved_and_exits_3(svm, tmp_path):
    options = ["--solver", "gd", "--max-iter", 1, "--tol", "1e-12"]
    result = run("fit", svm, *options, "--out", tmp_path / "m.json", code=3)
    assert result.stderr.startswith("warning: gd stopped before tol")
    assert result.stderr.count("\n") == 1
    assert "converged       NO" in result.stdout
    assert not load(tmp_path / "m.json").report_.converged


def one_error(result, *words):
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert all(word in result.stderr for word in words), result.stderr


def test_bad_data_exit_1(svm, frame, tmp_path):
    out = ["--out", tmp_path / "m.json"]
    one_error(run("fit", tmp_path / "none.svm", *out, code=1), "none.svm")
    one_error(run("fit", tmp_path / "none.csv", *out, code=1), "none.csv")
    one_error(run("fit", tmp_path / "none*.csv", *out, code=1), "none*.csv")
    one_error(run("fit", tmp_path / "train.csv", "--label", "bogus", *out, code=1), "bogus")
    one_error(run("fit", tmp_path / "train.csv", "--label", "a", *out, code=1), "continuous")
    one_error(run("fit", svm, "--out", tmp_path / "none" / "m.json", code=1), "folder")
    svm.write_text("1 1:1\n-1 1:x\n")
    one_error(run("fit", svm, *out, code=1), "train.svm, line 2", "1:x")
    svm.write_text("1 1:1\n1 1:2\n")
    one_error(run("fit", svm, *out, code=1), "one class")
    assert not (tmp_path / "m.json").exists()
    result = run("-v", "fit", svm, *out, code=1)
    assert "Traceback" in result.stderr
    assert logging.getLogger("daskglm").level == logging.NOTSET


def test_bad_input_of_predict_exit_1(svm, frame, tmp_path):
    model, out = tmp_path / "m.json", ["--out", tmp_path / "p.csv"]
    one_error(run("predict", model, svm, *out, code=1), "m.json")
    one_error(run("info", svm, code=1), "not a daskglm model")
    run("fit", tmp_path / "train.csv", "--out", model)
    done = run("predict", model, tmp_path / "train.csv", *out)
    assert done.stderr == "columns that are not used: 'kind'\n"
    (tmp_path / "p.csv").unlink()
    frame.drop(columns="a").to_csv(tmp_path / "less.csv", index=False)
    one_error(run("predict", model, tmp_path / "less.csv", *out, code=1), "column 'a'")
    one_error(
        run("predict", model, tmp_path / "train.csv", "--label", "z", *out, code=1), "column 'z'"
    )
    one_error(run("predict", model, svm, *out, code=1), "train.svm, line 1", "n_features=3")
    assert not (tmp_path / "p.csv").exists()
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    "args",
    [
        ["fit"],
        ["fit", "x.svm", "--target", "y"],
        ["fit", "x.svm", "--out", "m", "--loss", "poisson"],
        ["fit", "x.svm", "--out", "m", "--C", "-1"],
        ["fit", "x.svm", "--out", "m", "--loss", "ordinal", "--alpha", "1"],
        ["fit", "x.svm", "--out", "m", "--link", "probit"],
        ["fit", "x.svm", "--out", "m", "--loss", "ordinal", "--no-intercept"],
        ["fit", "x.svm", "--out", "m", "--tol", "nan"],
        ["fit", "x.svm", "--out", "m", "--max-iter", "0"],
        ["fit", "x.svm", "--out", "m", "--workers", "1", "--scheduler", "tcp://x:1"],
        ["fit", "x.svm", "--out", "m", "--class-weight", "balanced", "--loss", "squared"],
        ["fit", "x.dat", "--out", "m"],
        ["predict", "m", "x.svm", "--out", "p", "--proba", "--decision"],
        ["predict", "m", "x.svm", "--out", "p"],
        ["predict", "m", "x.svm", "--out", "p.xlsx"],
        ["bogus"],
    ],
)
def test_bad_usage_exit_2(args, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "Usage" in run(*args, code=2).stderr


def test_predictions_as_parquet(frame, tmp_path):
    data, model = tmp_path / "train.csv", tmp_path / "m.json"
    run("fit", data, "--out", model)
    for out in ("p.parquet", "p.csv"):
        run("predict", model, data, "--label", "kind", "--out", tmp_path / out)
    found = pd.read_parquet(tmp_path / "p.parquet")
    assert found["prediction"].tolist() == load(model).predict(frame[["a", "b", "c"]]).tolist()
    assert found["prediction"].tolist() == pd.read_csv(tmp_path / "p.csv")["prediction"].tolist()


@pytest.mark.parametrize("command", ["fit", "doctor"])
def test_a_scheduler_that_is_away_is_named(command, svm, tmp_path):
    with socket.socket() as closed:  # a port that nobody listens on
        closed.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{closed.getsockname()[1]}"
    args = {"fit": ("fit", svm, "--out", tmp_path / "m.json"), "doctor": ("doctor",)}[command]
    with dask.config.set({"distributed.comm.timeouts.connect": "200ms"}):
        result = run(*args, "--scheduler", address, code=1)
    one_error(result, f"no scheduler answers at {address}", "timeouts.connect is 200ms")


def test_local_workers_that_do_not_start_are_named(svm, tmp_path, monkeypatch):
    def late(**kwargs):
        raise TimeoutError

    monkeypatch.setattr("distributed.LocalCluster", late)
    result = run("fit", svm, "--workers", 2, "--out", tmp_path / "m.json", code=1)
    one_error(result, "2 local workers did not start (tried for", "does the machine do much else?")


def test_errors_without_a_word_say_how_to_learn_more(svm, tmp_path, monkeypatch):
    def silent(*args, **kwargs):
        raise TimeoutError

    monkeypatch.setattr("daskglm.estimators.datafiles.read_training", silent)
    result = run("fit", svm, "--out", tmp_path / "m.json", code=1)
    one_error(result, "TimeoutError, without a reason", "daskglm -v")


def test_proba_needs_a_model_that_has_it(svm, tmp_path):
    run("fit", svm, "--loss", "squared", "--out", tmp_path / "m.json")
    for flag in ("--proba", "--decision"):
        run("predict", tmp_path / "m.json", svm, flag, "--out", tmp_path / "p.csv", code=2)


def test_info(svm, tmp_path):
    run("fit", svm, "--C", "inf", "--out", tmp_path / "m.json")
    text = run("info", tmp_path / "m.json").stdout
    for part in (
        "LogisticRegression",
        "-1.0, 1.0",
        "4 of them not zero",
        "inf",
        "relative gap    <= ",
    ):
        assert part in text


@pytest.mark.parametrize(
    "model", [daskglm.OrdinalRegression(), daskglm.PoissonRegressor(alpha=0.5)]
)
def test_info_is_of_the_file(tmp_path, model):
    X = np.random.default_rng(0).normal(size=(60, 2))
    X[:, 1] = 0.0
    frame = pd.DataFrame(X, columns=["a", "b"])
    daskglm.save(model.fit(frame, np.arange(60) % 3), tmp_path / "m.json")
    constants = np.atleast_1d(getattr(model, "thresholds_", getattr(model, "intercept_", None)))
    lines = run("info", tmp_path / "m.json").stdout.splitlines()
    told = [line.split(maxsplit=1)[1] for line in lines]
    ordered = hasattr(model, "thresholds_")
    assert told[: len(told) - len(repr(model.report_).splitlines())] == [
        type(model).__name__,
        *(["0, 1, 2"] if ordered else []),
        "2 (named)",
        "2, 1 of them not zero",
        ", ".join(f"{value:.6g}" for value in constants),
        *(["1"] if ordered else ["poisson", "0.5"]),
    ]
    content = json.loads((tmp_path / "m.json").read_text())
    first = {key: value for key, value in content.items() if key != "record"} | {"version": 1}
    (tmp_path / "m.json").write_text(json.dumps(first))
    assert run("info", tmp_path / "m.json").stdout.splitlines() == lines


@pytest.mark.parametrize("damage", ["coef", "C", "report"])
def test_info_tells_damage_of_what_it_shows(tmp_path, damage):
    daskglm.save(daskglm.LogisticRegression().fit(np.eye(4), [0, 1, 0, 1]), tmp_path / "m.json")
    content = json.loads((tmp_path / "m.json").read_text())
    (content["record"] if damage == "C" else content)[damage] = "1"
    (tmp_path / "m.json").write_text(json.dumps(content))
    one_error(run("info", tmp_path / "m.json", code=1), "m.json is damaged: ")


@pytest.mark.parametrize("kind", ["numbers", "table"])
def test_info_imports_no_estimator(kind, tmp_path):
    X = np.eye(40)
    if kind == "table":
        X = pd.DataFrame({"area": [*"abcd"] * 10, "x": np.arange(40.0), "z": np.arange(40.0) % 7})
        schema = {
            "splines": {"x": 4},
            "interactions": [("area", "z")],
            "categories": ["z"],
            "unseen": "zero",
        }
        model = daskglm.LogisticRegression(schema=schema)
    else:
        model = daskglm.LogisticRegression()
    daskglm.save(model.fit(X, [0, 1] * 20), tmp_path / "m.json")
    code = (
        "import sys; from daskglm.cli import main\n"
        f"main(['info', {str(tmp_path / 'm.json')!r}], standalone_mode=False)\n"
        "print({'scipy', 'sklearn', 'pandas', 'pyarrow', 'numba', 'dask'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "set()"


def test_version_and_help():
    assert daskglm.__version__ in run("--version").stdout
    assert "--class-weight" in run("fit", "--help").stdout


@pytest.mark.slow
def test_on_local_workers(svm, tmp_path):
    code = f"from daskglm.cli import main; main(['fit', {str(svm)!r}, '--workers', '2', '--out', 'm.json'])"
    script = tmp_path / "script.py"
    script.write_text(f"if __name__ == '__main__':\n    {code}\n")
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, cwd=tmp_path, timeout=250
    )
    assert done.returncode == 0, done.stderr
    assert "worker(s)" in done.stdout
    assert load(tmp_path / "m.json").coef_.shape == (1, 4)


@pytest.mark.slow
def test_on_a_scheduler(svm, tmp_path, client):
    run("fit", svm, "--scheduler", client.scheduler.address, "--out", tmp_path / "m.json")
    assert load(tmp_path / "m.json").report_.workers >= 1


def test_short_helps_are_the_first_sentences_of_commands():
    for name, lazy in COMMANDS.items():
        command = main.get_command(None, name)
        assert command.name == name
        assert command.get_short_help_str(200).startswith(lazy.help.rstrip("."))


def test_help_imports_no_command():
    code = (
        "import sys; from daskglm.cli import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "assert not {'numpy', 'sklearn', 'numba', 'dask'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
