"""The command line on tables with columns of text: fit, predict and info, and what is wrong with files."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import daskglm
from daskglm.estimators import datafiles
from daskglm.estimators.persistence import load
from tests.test_cli import read, run, small_threads  # noqa: F401

# dask's reader on pandas 3.1
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")

ROOT = Path(__file__).resolve().parents[1]
N, FILES = 300, 3


def claims():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "policy": [f"{i:05d}" for i in range(N)],
            "area": rng.choice(list("abcd"), N),
            "fuel": rng.choice(["gas", "diesel"], N),
            "new": rng.random(N) < 0.5,
            "age": rng.uniform(18, 80, N),
            "power": rng.integers(4, 9, N),
            "years": rng.uniform(0.1, 1.0, N),
            "weight": rng.integers(1, 4, N),
        }
    )
    rate = np.exp(-1.0 + 0.02 * (frame.age - 40) + 0.7 * (frame.area == "b"))
    return frame.assign(claims=rng.poisson(frame.years * rate))


CLAIMS = claims()
PLAIN = CLAIMS.drop(columns=["policy", "weight"])
FEATURES = ["area", "fuel", "new", "age", "power"]
FIT = ("--target", "claims", "--exposure", "years", "--family", "poisson", "--no-progress")
TIGHT = ("--tol", 1e-12)


def write(frame, path):
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False)
    return path


def folder(path, change=None, kind="parquet", frame=PLAIN):
    """Several files; `change` is applied to a part by its number."""
    path.mkdir()
    size = len(frame) // FILES
    for k in range(FILES):
        part = frame.iloc[k * size : (k + 1) * size].copy()
        write(part if change is None else change(k, part), path / f"{k}.{kind}")
    return path


@pytest.fixture(scope="module")
def wanted():
    model = daskglm.PoissonRegressor(tol=1e-12)
    return model.fit(PLAIN[[*FEATURES, "years"]], PLAIN.claims, exposure="years")


@pytest.fixture
def model(wanted, tmp_path):
    daskglm.save(wanted, tmp_path / "m.json")
    return tmp_path / "m.json"


def one_error(result, *words):
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert all(word in result.stderr for word in words), result.stderr


# ---- fit and predict
@pytest.mark.parametrize("kind", ["parquet", "csv", "folder", "folder of csv"])
@pytest.mark.parametrize("more", [(), ("--out-of-core",)])
def test_as_it_is_written_in_the_manual(kind, more, wanted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "folder" in kind:
        data = folder(tmp_path / "claims", kind="csv" if "csv" in kind else "parquet")
    else:
        data = write(PLAIN, tmp_path / f"claims.{kind}")
    done = run("fit", data.name, *FIT, *TIGHT, *more)
    assert "saved in        model.json" in done.stdout
    found = load("model.json")
    assert found.roles_ == {"exposure": "years"}
    assert found.feature_names_in_.tolist() == FEATURES
    assert found.feature_names_out_.tolist() == wanted.feature_names_out_.tolist()
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-6)

    done = run("predict", "model.json", data.name, "--target", "claims", "--out", "p.csv")
    score = wanted.score(PLAIN[[*FEATURES, "years"]], PLAIN.claims, exposure="years")
    assert done.stderr == f"D2 {score:.6g} ({N} rows)\n"
    means = wanted.predict(PLAIN, exposure="years")
    np.testing.assert_allclose(pd.read_csv("p.csv").prediction, means, rtol=1e-6)


@pytest.mark.slow
def test_on_workers(wanted, tmp_path):
    data, out = folder(tmp_path / "claims"), tmp_path / "m.json"
    args = ["fit", data, *FIT, *TIGHT, "--workers", 2, "--out", out]
    done = subprocess.run(
        [sys.executable, "-m", "daskglm", *map(str, args)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    assert "worker(s)" in done.stdout
    np.testing.assert_allclose(load(out).coef_, wanted.coef_, rtol=1e-6)


def test_factors_may_be_absorbed(tmp_path):
    data, out = write(PLAIN, tmp_path / "d.parquet"), tmp_path / "m.json"
    run("fit", data, *FIT, *TIGHT, "--absorb", "area", "--out", out)
    found = load(out)
    same = daskglm.PoissonRegressor(tol=1e-12, schema={"absorb": ["area"]})
    same.fit(PLAIN, "claims", exposure="years")
    assert not any(name.startswith("area") for name in found.feature_names_out_)
    np.testing.assert_allclose(found.coef_, same.coef_, rtol=1e-6)
    np.testing.assert_allclose(found.predict(PLAIN), same.predict(PLAIN), rtol=1e-6)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_identifiers_and_columns_in_any_order(kind, model, wanted, tmp_path):
    more = CLAIMS[CLAIMS.columns[::-1]].assign(number=np.arange(N), note="x")
    data, out = write(more, tmp_path / f"d.{kind}"), tmp_path / "p.parquet"
    ids = ("--id", "policy", "--id", "number")
    done = run("predict", model, data, *ids, "--out", out)
    assert done.stderr == "columns that are not used: 'claims', 'weight', 'note'\n"
    found = pd.read_parquet(out)
    assert list(found.columns) == ["policy", "number", "prediction"]
    assert found.policy.tolist() == CLAIMS.policy.tolist()  # "00001" is not 1
    assert found.number.dtype == np.int64
    assert found.number.tolist() == list(range(N))
    means = wanted.predict(PLAIN, exposure="years")
    np.testing.assert_allclose(found.prediction, means, rtol=1e-12)

    run("predict", model, data, *ids, "--out", tmp_path / "p.csv")
    header, rows = read(tmp_path / "p.csv")
    assert header == ["policy", "number", "prediction"]
    assert [row[0] for row in rows] == CLAIMS.policy.tolist()


def test_a_feature_may_be_an_identifier(model, tmp_path):
    cut = CLAIMS.assign(area=CLAIMS.area.astype("category"))
    data = write(cut, tmp_path / "d.parquet")
    run("predict", model, data, "--id", "area", "--id", "years", "--out", tmp_path / "p.parquet")
    found = pd.read_parquet(tmp_path / "p.parquet")
    assert found.area.tolist() == CLAIMS.area.tolist()
    assert found.years.tolist() == CLAIMS.years.tolist()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_all_that_a_schema_has_of_features_can_be_said(kind, tmp_path):
    data, out = write(PLAIN, tmp_path / f"d.{kind}"), tmp_path / "m.json"
    given = (
        *("--base", "area=b", "--base", "power=6", "--base", "new=True", "--categories", "power"),
        *("--missing", "area=level", "--missing", "age=mean", "--aliased", "error"),
        *("--interactions", "area,fuel", "--interactions", "fuel,power", "--splines", "age=4"),
    )
    run("fit", data, *FIT, *TIGHT, *given, "--out", out)
    found = load(out)
    assert set(found.schema) | {"numeric", "absorb", "polynomials", "unseen", "min_count"} | {
        *("exposure", "offset", "sample_weight", "clusters")
    } == set(daskglm.Schema().get_params())
    names = found.feature_names_out_.tolist()
    assert not {"area[b]", "power[6]", "new[True]"} & set(names)
    assert {"area[a]", "power[4]", "new[False]"} <= set(names)
    levels = {"area": "b", "power": 6, "new": True}
    schema = {**found.schema, "base": levels, "interactions": [("area", "fuel"), ("fuel", "power")]}
    same = daskglm.PoissonRegressor(tol=1e-12, schema=schema).fit(PLAIN, "claims", exposure="years")
    assert same.feature_names_out_.tolist() == names
    np.testing.assert_allclose(found.coef_, same.coef_, rtol=1e-6, atol=1e-9)
    run("fit", data, *FIT, "--polynomials", "age=3", "--out", out)
    assert load(out).schema == {"polynomials": {"age": 3}}
    message = run("fit", data, *FIT, "--base", "area=z", "--out", out, code=1).stderr
    assert "base={'area': 'z'}: 'area' has the levels 'a', 'b'" in message


def test_the_schema_is_that_of_the_options(tmp_path):
    frame = PLAIN.assign(fuel=PLAIN.fuel.where(PLAIN.age > 20), age=PLAIN.age.where(PLAIN.age > 25))
    frame.loc[5, "area"] = "odd"
    data, out = write(frame, tmp_path / "d.parquet"), tmp_path / "m.json"
    given = (
        *("--categories", "power", "--missing", "level", "--missing", "indicator"),
        *("--unseen", "reference", "--min-count", 3, "--base", "most_frequent", "--drop", "new"),
    )
    run("fit", data, *FIT, *TIGHT, *given, "--out", out)
    found = load(out)
    schema = {
        "categories": ["power"],
        "missing": ["level", "indicator"],
        "unseen": "reference",
        "min_count": 3,
        "base": "most_frequent",
    }
    assert found.schema == schema
    same = daskglm.PoissonRegressor(tol=1e-12, schema=schema)
    same.fit(frame.drop(columns="new"), "claims", exposure="years")
    assert found.feature_names_out_.tolist() == same.feature_names_out_.tolist()
    np.testing.assert_allclose(found.coef_, same.coef_, rtol=1e-6)

    shown = run("info", out).stdout
    for line in (
        "features        4 (named)",
        f"4 columns, {len(found.coef_)} coefficients",
        "1 rare ones as one ('odd')",
        "missing: a level",
        "number; missing: the mean, ",
        "with a coefficient for them",
        "not seen: taken for the base level",
        "  exposure  years",
    ):
        assert line in shown, line
    assert str(found.schema_) in shown
    frame["area"] = "new"
    write(frame, data)
    done = run("predict", out, data, "--target", "claims", "--out", tmp_path / "p.csv")
    warning, score = done.stderr.splitlines()[:2]
    assert "d.parquet: 300 rows have levels of 'area' that the fit has not seen (new)" in warning
    assert warning.startswith("warning: ")
    assert score.startswith("D2 ")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_weights_are_those_of_fit_and_score(kind, tmp_path):
    data, out = write(CLAIMS, tmp_path / f"d.{kind}"), tmp_path / "m.json"
    run("fit", data, *FIT, *TIGHT, "--sample-weight", "weight", "--drop", "policy", "--out", out)
    same = daskglm.PoissonRegressor(tol=1e-12)
    rows = CLAIMS.drop(columns="policy")
    same.fit(rows, "claims", sample_weight="weight", exposure="years")
    np.testing.assert_allclose(load(out).coef_, same.coef_, rtol=1e-6)
    predict = ("predict", out, data, "--target", "claims", "--out", tmp_path / "p.csv")
    done = run(*predict)
    score = same.score(rows, "claims", sample_weight="weight", exposure="years")
    assert f"D2 {score:.6g} ({N} rows, weighted by weight)" in done.stderr
    assert "weighted by power" in run(*predict, "--sample-weight", "power").stderr


def test_classes_of_text(tmp_path):
    data, out = write(PLAIN, tmp_path / "d.csv"), tmp_path / "m.json"
    run("fit", data, "--target", "fuel", "--drop", "claims", "--out", out)
    done = run("predict", out, data, "--target", "fuel", "--out", tmp_path / "p.csv")
    model = load(out)
    rows = PLAIN.drop(columns=["fuel", "claims"])
    assert f"accuracy {model.score(rows, PLAIN.fuel):.6g} (" in done.stderr
    run("predict", out, data, "--proba", "--id", "area", "--out", tmp_path / "p.csv")
    assert read(tmp_path / "p.csv")[0] == ["area", "diesel", "gas"]


def test_partitions_are_read_one_by_one(model, tmp_path, monkeypatch):
    from daskglm.estimators import prediction_file, rows_to_predict

    data, events = folder(tmp_path / "d"), []
    make, write_csv = rows_to_predict.Part, prediction_file._write_csv
    monkeypatch.setattr(rows_to_predict, "Part", lambda *a: events.append("read") or make(*a))
    monkeypatch.setattr(
        prediction_file, "_write_csv", lambda *a: events.append("write") or write_csv(*a)
    )
    run("predict", model, data, "--id", "area", "--out", tmp_path / "p.csv")
    assert events == ["write"] + ["read", "write"] * FILES


def test_a_file_is_read_by_its_row_groups(model, wanted, tmp_path, monkeypatch):
    from daskglm.estimators import datafiles

    monkeypatch.setattr(datafiles, "PARQUET_BLOCK", 1000)
    data, out = tmp_path / "d.parquet", ("--out", tmp_path / "m.json")
    frame = PLAIN.copy()
    frame.to_parquet(data, index=False, row_group_size=50)
    run("fit", data, *FIT, *TIGHT, "--out-of-core", *out)
    np.testing.assert_allclose(load(tmp_path / "m.json").coef_, wanted.coef_, rtol=1e-6)
    frame.loc[120, "area"] = "zz"
    frame.to_parquet(data, index=False, row_group_size=50)
    done = run("predict", model, data, "--out", tmp_path / "p.csv", code=1)
    one_error(done, "partition 2 of", "d.parquet: row 20, column 'area' has the level 'zz'")


# ---- files that differ
def other_order(k, part):
    order = (list("abcd"), list("dcba"), list("bdac"))[k]
    return part.assign(area=pd.Categorical(part.area, categories=order))


def other_types(k, part):
    return part.assign(power=part.power.astype(("float32", "int64", "Int16")[k]))


def reverse(k, part):
    return part[part.columns[::-1]] if k == 1 else part


@pytest.mark.parametrize("change", [other_order, other_types, reverse])
def test_files_may_differ_in_kind(change, wanted, tmp_path):
    data = folder(tmp_path / "d", change)
    for more in ((), ("--out-of-core",)):
        run("fit", data, *FIT, *TIGHT, *more, "--out", tmp_path / "m.json")
        np.testing.assert_allclose(load(tmp_path / "m.json").coef_, wanted.coef_, rtol=1e-6)
    run("predict", tmp_path / "m.json", data, "--out", tmp_path / "p.parquet")
    found = pd.read_parquet(tmp_path / "p.parquet").prediction
    np.testing.assert_allclose(found, wanted.predict(PLAIN, exposure="years"), rtol=1e-6)


@pytest.mark.parametrize("empty", [0, 1])
def test_a_column_may_be_empty_in_one_file(empty, tmp_path):
    def change(k, part):
        return part.assign(fuel=None) if k == empty else part

    data, out = folder(tmp_path / "d", change), ("--out", tmp_path / "m.json")
    one_error(run("fit", data, *FIT, *out, code=1), f"{empty}.parquet", "'fuel'")
    run("fit", data, *FIT, "--missing", "level", *out)
    assert "fuel[(missing)]" in load(tmp_path / "m.json").feature_names_out_
    run("predict", tmp_path / "m.json", data, "--id", "fuel", "--out", tmp_path / "p.parquet")
    assert pd.read_parquet(tmp_path / "p.parquet").fuel.isna().sum() == N // FILES


def test_dictionaries_of_arrow(wanted, tmp_path):
    table = pa.Table.from_pandas(PLAIN, preserve_index=False)
    at = table.schema.get_field_index("area")
    pq.write_table(
        table.set_column(at, "area", table["area"].dictionary_encode()), tmp_path / "d.parquet"
    )
    run("fit", tmp_path / "d.parquet", *FIT, *TIGHT, "--out", tmp_path / "m.json")
    np.testing.assert_allclose(load(tmp_path / "m.json").coef_, wanted.coef_, rtol=1e-6)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_text_among_numbers_names_file_and_column(kind, tmp_path):
    def change(k, part):
        return part.assign(power=part.power.astype(str) + "x") if k == 1 else part

    data = folder(tmp_path / "d", change, kind)
    done = run("fit", data, *FIT, "--out", tmp_path / "m.json", code=1)
    one_error(done, f"1.{kind}", "column 'power'", "categories")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("lacking", [0, 1])
def test_a_file_without_a_column_is_named(kind, lacking, model, tmp_path):
    def change(k, part):
        return part.drop(columns="fuel") if k == lacking else part

    data, out = folder(tmp_path / "d", change, kind), ("--out", tmp_path / "p.csv")
    done = run("predict", model, data, *out, code=1)
    one_error(done, "no column 'fuel'", *(["1." + kind] if lacking else []))
    if lacking:
        one_error(run("fit", data, *FIT, *out, code=1), f"1.{kind}", "no column 'fuel'")


# ---- as spreadsheets write
@pytest.mark.parametrize(
    "way", [{"sep": ";", "decimal": ","}, {"sep": "\t"}], ids=["german", "tabs"]
)
def test_files_of_other_delimiters_and_decimals_are_the_same_rows(way, wanted, tmp_path):
    data = tmp_path / ("claims.tsv" if way["sep"] == "\t" else "claims.csv")
    PLAIN.assign(policy=CLAIMS.policy).to_csv(data, index=False, encoding="utf-8-sig", **way)
    run("fit", data, *FIT, *TIGHT, "--drop", "policy", "--out", tmp_path / "m.json")
    np.testing.assert_allclose(load(tmp_path / "m.json").coef_, wanted.coef_, rtol=1e-6)
    plain, out = write(CLAIMS, tmp_path / "plain.csv"), tmp_path / "p.csv"
    run("predict", tmp_path / "m.json", plain, "--id", "policy", "--out", out)
    other = tmp_path / "q.csv"
    run("predict", tmp_path / "m.json", data, "--id", "policy", "--out", other)
    assert out.read_text() == other.read_text()
    with data.open("a") as file:
        file.write(way["sep"].join(["a", "gas", "True", "old", "5", "1", "1", "00001"]) + "\n")
    done = run("fit", data, *FIT, "--drop", "policy", "--out", tmp_path / "m.json", code=1)
    one_error(done, "column 'age'", "such as '18,0" if way["sep"] == ";" else "is none: 'old'")
    done = run("predict", tmp_path / "m.json", data, "--out", out, code=1)
    one_error(done, f"{data.name}, line {N + 2}, column 'age' is 'old'")


def test_what_stands_in_the_way_of_a_first_fit_is_told_at_once_with_the_options_to_give(tmp_path):
    frame = PLAIN.assign(
        id=[f"P{i}" for i in range(N)], share=[f"{i / 4} %" for i in range(N)], nothing=""
    )
    data, out = write(frame, tmp_path / "own.csv"), ("--out", tmp_path / "m.json")
    names = ("'id' has 300 levels", "--drop it; or name it in --categories", "'share' is text of")
    one_error(run("fit", data, *FIT, *out, code=1), *names, "'nothing' has no value")
    age = frame.age.where(frame.index != 7)
    power = frame.power.where(frame.index != 9)
    drop = ("--drop", "id", "--drop", "share", "--drop", "nothing")
    write(frame.assign(age=age, power=power), data)
    done = run("fit", data, *FIT, *drop, *out, code=1)
    one_error(done, "column 'age'; so are 'power'. Drop or impute", "with --missing mean")
    claims = frame.claims.where(frame.index != 5).astype("Int64")
    write(frame.assign(claims=claims), data)
    done = run("fit", data, *FIT, *drop, *out, code=1)
    one_error(done, "y contains NaN: partition 0, row 5. Leave out such rows")
    done = run("fit", data, "--loss", "poisson", *out, code=2)
    assert "'poisson' is a family: give --family poisson." in " ".join(done.stderr.split())


def test_what_is_no_table_is_told_what_to_do(tmp_path):
    out = ("--out", tmp_path / "m.json")
    rows = PLAIN[["age", "power", "claims"]]
    for sep, decimal in ((",", "."), (";", ",")):
        rows.to_csv(tmp_path / "rows.csv", index=False, header=False, sep=sep, decimal=decimal)
        done = run("fit", tmp_path / "rows.csv", *out, code=1)
        one_error(done, "rows.csv: line 1 is ['", "put a line of names before it")
    # a matrix as pandas writes it has numbers for names
    rows.set_axis(range(3), axis=1).to_csv(tmp_path / "rows.csv", index=False)
    run("fit", tmp_path / "rows.csv", "--family", "poisson", *out)
    one_error(run("fit", tmp_path / "a.xlsx", *out, code=1), "a.xlsx is a workbook", "CSV UTF-8")
    done = run("fit", tmp_path / "rows.csv", "--target", "0", *out, code=1)
    one_error(done, "a classifier wants labels", "numbers are for --loss squared and --family")


def test_text_that_is_not_utf_8_is_told_how_to_convert(tmp_path):
    data = tmp_path / "old.csv"
    data.write_bytes("größe,y\nä,1\nö,0\n".encode("cp1252"))
    done = run("fit", data, "--out", tmp_path / "m.json", code=1)
    one_error(done, "old.csv, line 1: not UTF-8", "iconv -f WINDOWS-1252 -t UTF-8")


# ---- types of CSV, which dask finds at the beginning
@pytest.fixture
def long(tmp_path, monkeypatch):
    """Return a function that writes a CSV file whose beginning says little of a column."""
    monkeypatch.setattr(datafiles, "SAMPLED", 100_000)

    def make(first, later, rows=14_000, **columns):
        frame = pd.concat([PLAIN] * (2 * rows // N), ignore_index=True)
        half = np.arange(len(frame)) < rows
        frame.insert(0, "code", np.where(half, first, later))
        return write(frame.assign(**columns), tmp_path / "long.csv")

    return make


def test_whole_numbers_may_be_missing_later(long, tmp_path):
    data, out = long("7", ""), ("--out", tmp_path / "m.json")
    run("fit", data, *FIT, "--missing", "mean", *out)
    assert load(tmp_path / "m.json").schema_.numbers.names[0] == "code"
    one_error(run("fit", data, *FIT, *out, code=1), "column 'code'", "long.csv", "missing")


@pytest.mark.parametrize("first", ["7", ""])
def test_text_after_numbers_or_nothing_wants_a_word(first, long, tmp_path):
    data, out = long(first, "7A"), ("--out", tmp_path / "m.json")
    done = run("fit", data, *FIT, "--missing", "level", *out, code=1)
    one_error(done, "long.csv, line 14,002, column 'code' is '7A'", "--categories")
    run("fit", data, *FIT, "--missing", "level", "--categories", "code", *out)
    names = load(tmp_path / "m.json").feature_names_out_.tolist()
    assert "code[7A]" in names
    assert names[0] == ("code[7]" if first else "code[7A]")
    # the text of a file of numbers is text for that model
    few = write(PLAIN.assign(code=7), tmp_path / "few.csv")
    predict = ("predict", tmp_path / "m.json", few, "--out", tmp_path / "p.csv")
    if first:
        run(*predict)
    else:
        one_error(run(*predict, code=1), "few.csv: row 0, column 'code' has the level '7'")


def test_columns_that_are_seldom_filled_or_seldom_text_need_no_word(tmp_path):
    """Codes of diagnoses begin with a letter now and then; most rows have no measurement."""
    at = np.arange(N)
    rare = np.where(at % 30 == 25, "high", None)
    frame = PLAIN.assign(code=np.where(at % 40 == 33, "V57", "250"), found=rare)
    data = write(frame, tmp_path / "rare.csv")
    run("fit", data, *FIT, "--missing", "level", "--out", tmp_path / "m.json")
    names = set(load(tmp_path / "m.json").feature_names_out_)
    assert {"code[V57]", "found[high]", "found[(missing)]"} <= names


def test_all_columns_that_change_are_named_at_once(long, tmp_path):
    data = long("7", "7A", second=np.where(np.arange(27_900) < 20_000, "1", "b"))
    done = run("fit", data, *FIT, "--out", tmp_path / "m.json", code=1)
    one_error(done, "line 14,002, column 'code' is '7A'", "the same is true of 'second'")


def test_booleans_and_targets_that_change(long, tmp_path):
    data, out = long("True", ""), ("--out", tmp_path / "m.json")
    run("fit", data, *FIT, "--missing", "level", *out)
    assert load(tmp_path / "m.json").feature_names_out_[:2].tolist() == [
        "code[True]",
        "code[(missing)]",
    ]
    data = long("1", "1.5")
    done = run("fit", data, "--target", "code", "--loss", "squared", *out, code=1)
    one_error(done, "line 14,002, column 'code' is '1.5'", "whole numbers")


def test_identifiers_that_change_are_refused(long, model, tmp_path):
    data = long("12", "012")
    done = run("predict", model, data, "--id", "code", "--out", tmp_path / "p.csv", code=1)
    one_error(done, "row 14,000: --id 'code' is '012'")


# ---- input that is wrong
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_level_that_the_fit_has_not_seen_is_named(kind, model, tmp_path):
    def change(k, part):
        part.loc[part.index[7], "area"] = "zz" if k == 1 else part.area.iloc[7]
        return part

    data = folder(tmp_path / "d", change, kind)
    done = run("predict", model, data, "--out", tmp_path / "p.csv", code=1)
    one_error(done, f"d/1.{kind}: row 7, column 'area' has the level 'zz'")
    assert not (tmp_path / "p.csv").exists()


def test_columns_that_are_not_there_are_named(model, tmp_path):
    data, out = write(PLAIN, tmp_path / "d.parquet"), ("--out", tmp_path / "o.csv")
    for option in ("--id", "--target", "--exposure", "--sample-weight"):
        one_error(run("predict", model, data, option, "bogus", *out, code=1), "column 'bogus'")
    for option in ("--drop", "--categories", "--numeric", "--sample-weight"):
        one_error(run("fit", data, *FIT, option, "bogus", *out, code=1), "column 'bogus'")
    for option in ("--drop", "--sample-weight"):
        one_error(run("fit", data, *FIT, option, "claims", *out, code=1), "'claims' is the target")
    done = run("predict", model, data, "--target", "age", *out, code=1)
    one_error(done, "column 'age' is a feature of the model")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--target", "a", "--label", "b"), "it is given 2 times: 'a', 'b'"),
        (("--exposure", "a", "--exposure", "b"), "it is given 2 times"),
        (("--drop", "a", "--drop", "a"), "'a' is given twice"),
        (("--missing", "level", "--missing", "level"), "'level' is given twice"),
        (("--missing", "mean", "--missing", "indicator"), "give one way for numbers"),
        (("--categories", "a", "--numeric", "a"), "'a' is in categories and in numeric"),
        (("--categories", " "), "it is empty"),
        (("--min-count", "0"), "0 is not in the range"),
        (("--unseen", "drop"), "'drop' is not one of"),
        (("--base", "last"), "'last' is not NAME=LEVEL, nor one of first, most_frequent"),
        (("--base", "first", "--base", "area=a"), "'first' is not NAME=LEVEL"),
        (("--base", "first", "--base", "most_frequent"), "it is given 2 times"),
        (("--base", "area=a", "--base", "area=b"), "'area' is given twice"),
        (("--base", "area="), "'area=' is not NAME=LEVEL"),
        (("--missing", "area=drop"), "missing['area']='drop' is not one of"),
        (("--missing", "some"), "'some' is not NAME=WAY, nor one of error, level, mean"),
        (("--splines", "age"), "'age' is not NAME=N with a whole number"),
        (("--splines", "age=4.5"), "'age=4.5' is not NAME=N with a whole number"),
        (("--splines", "age=2"), "splines['age']"),
        (("--polynomials", "age=1000"), "polynomials['age']=1000 is above"),
        (("--interactions", "area"), "'area' is not NAME,NAME"),
        (("--interactions", "area,"), "'area,' is not NAME,NAME"),
        (("--aliased", "keep"), "'keep' is not one of"),
        (("--format", "svmlight", "--splines", "a=3"), "--splines is for columns, of CSV or"),
        (("--format", "svmlight", "--categories", "a"), "--categories names a column, of CSV or"),
        (("--format", "svmlight", "--missing", "mean"), "--missing is for columns, of CSV or"),
        (("--format", "svmlight", "--sample-weight", "a"), "--sample-weight names a column"),
        (("--format", "svmlight", "--target", "a"), "--target names a column"),
    ],
)
def test_options_that_say_nothing_or_too_much_are_wrong_usage(options, message, tmp_path):
    data = write(PLAIN, tmp_path / "d.csv")
    done = run("fit", data, *options, "--out", tmp_path / "m.json", code=2)
    assert message in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--id", "a", "--id", "a"), "'a' is given twice"),
        (("--format", "svmlight", "--id", "a"), "--id names a column"),
    ],
)
def test_identifiers_that_are_wrong_usage(options, message, model, tmp_path):
    data = write(PLAIN, tmp_path / "d.csv")
    done = run("predict", model, data, *options, "--out", tmp_path / "p.csv", code=2)
    assert message in " ".join(done.stderr.split())


@pytest.mark.parametrize("fitted", ["csv", "parquet"])
def test_numbers_that_are_levels_are_the_same_in_csv_and_parquet(fitted, tmp_path):
    frame = PLAIN.assign(power=PLAIN.power + 5, both=PLAIN.power % 3)  # 9 and 10 and more
    for kind in ("csv", "parquet"):
        write(frame, tmp_path / f"t.{kind}")
    named = ("--categories", "power", "--categories", "new", "--categories", "both")
    model = tmp_path / "m.json"
    run("fit", tmp_path / f"t.{fitted}", *FIT, *TIGHT, *named, "--out", model)
    for kind in ("csv", "parquet"):
        run("predict", model, tmp_path / f"t.{kind}", "--out", tmp_path / f"{kind}.parquet")
    found = [pd.read_parquet(tmp_path / f"{kind}.parquet") for kind in ("csv", "parquet")]
    pd.testing.assert_frame_equal(*found)
    columns = ["power", "new", "both"]
    rows = frame.astype(dict.fromkeys(columns, str)) if fitted == "csv" else frame
    plain = daskglm.PoissonRegressor(tol=1e-12, schema={"categories": columns})
    plain.fit(rows, "claims", exposure="years")
    np.testing.assert_allclose(found[0].iloc[:, -1], plain.predict(frame), rtol=1e-8)
    one = load(model)
    row = frame.drop(columns="claims").iloc[3].to_dict()
    wanted = one.predict(frame.iloc[3:4])[0]
    assert one.scorer()(row) == pytest.approx(wanted)
    assert one.scorer()({**row, "power": str(row["power"])}) == pytest.approx(wanted)
    with pytest.raises(ValueError, match="'power' has the level '09'"):
        one.predict(frame.assign(power="09"))
