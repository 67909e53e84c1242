"""Fits of tables against fits of their one-hot twins, from every container."""

import asyncio

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

import daskglm
from daskglm.frames.design import UnseenLevelWarning
from tests.frames.tables import counts, one_hot

TABLE = counts()
FACTORS = ["area", "brand", "old", "month"]
SCHEMA = {"categories": ["month"]}
HOW = {"alpha": 1e-3, "tol": 1e-13}


def fitted(frame=TABLE, **more):
    model = daskglm.PoissonRegressor(**{**HOW, "schema": SCHEMA, **more})
    return model.fit(frame, "claims", exposure="years")


MODEL = fitted()


def polars(frame=TABLE):
    library = pytest.importorskip("polars")
    return library.from_pandas(frame)


CONTAINERS = {
    "pandas": lambda: TABLE,
    "objects": lambda: TABLE.astype({"area": object, "brand": object, "old": object}),
    "nullable": lambda: TABLE.convert_dtypes(),
    "arrow-backed": lambda: TABLE.convert_dtypes(dtype_backend="pyarrow"),
    "columns in another order": lambda: TABLE[TABLE.columns[::-1]][list(TABLE.columns)],
    "Arrow": lambda: pa.Table.from_pandas(TABLE),
    "Arrow dictionaries": lambda: pa.Table.from_pandas(TABLE.astype({"area": "category"})),
    "Polars": polars,
    "Polars Categorical": lambda: polars(TABLE.astype({"area": "category"})),
    "dask": lambda: dd.from_pandas(TABLE, npartitions=3),
    "dask, categories unknown": lambda: dd.from_pandas(TABLE, npartitions=3).astype(
        {"area": "category"}
    ),
}


@pytest.mark.parametrize("kind", list(CONTAINERS))
def test_one_model_of_every_container(kind):
    rows = CONTAINERS[kind]()
    model = fitted(rows)
    assert model.feature_names_out_.tolist() == MODEL.feature_names_out_.tolist()
    assert model.feature_names_in_.tolist() == ["area", "power", "brand", "old", "month", "age"]
    np.testing.assert_allclose(model.coef_, MODEL.coef_, rtol=0, atol=1e-12)
    (means,) = dask.compute(model.predict(rows))
    np.testing.assert_allclose(means, MODEL.predict(TABLE), rtol=1e-12)
    assert model.score(rows, "claims") == pytest.approx(MODEL.score(TABLE, "claims"))


def test_coefficients_are_those_of_the_one_hot_fit():
    twin = one_hot(TABLE, FACTORS)
    assert MODEL.feature_names_out_.tolist() == list(twin.columns)
    plain = daskglm.PoissonRegressor(**HOW).fit(twin, TABLE.claims, exposure=TABLE.years)
    np.testing.assert_allclose(MODEL.coef_, plain.coef_, rtol=0, atol=1e-11)
    assert MODEL.intercept_ == pytest.approx(plain.intercept_, abs=1e-11)
    assert MODEL.n_features_in_ == 6


def test_without_a_penalty_the_first_level_has_no_coefficient():
    model = fitted(alpha=0.0)
    twin = one_hot(TABLE, FACTORS, base=True)
    assert model.feature_names_out_.tolist() == list(twin.columns)
    plain = daskglm.PoissonRegressor(alpha=0.0, tol=1e-13)
    plain.fit(twin, TABLE.claims, exposure=TABLE.years)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-8)
    for covariance in ("classical", "HC1", "HC3"):
        found = model.inference(TABLE, "claims", covariance=covariance)
        wanted = plain.inference(twin, TABLE.claims, exposure=TABLE.years, covariance=covariance)
        assert found.names == wanted.names
        assert "Base levels, against which others are: area a, brand x" in str(found)
        np.testing.assert_allclose(found.bse, wanted.bse, rtol=1e-6)
    np.testing.assert_allclose(
        found.predict(TABLE.head(7)), wanted.predict(twin.head(7), exposure=TABLE.years.head(7))
    )
    np.testing.assert_allclose(
        found.leverage(TABLE, "claims", exposure="years"),
        wanted.leverage(twin, TABLE.claims, exposure=TABLE.years),
        rtol=1e-6,
    )


@pytest.mark.parametrize("base", ["most_frequent", {"area": "d", "month": 5}])
def test_the_base_level_is_chosen(base):
    model = fitted(schema={**SCHEMA, "base": base})
    names = set(model.feature_names_out_)
    assert len(set(MODEL.feature_names_out_) - names) == (3 if base == "most_frequent" else 2)
    if isinstance(base, dict):
        assert not {"area[d]", "month[5]"} & names
    else:
        assert f"area[{TABLE.area.mode()[0]}]" not in names


def test_a_base_level_of_one_factor_leaves_the_others_theirs():
    model = fitted(alpha=0.0, schema={**SCHEMA, "base": {"area": "d"}})
    wanted = set(one_hot(TABLE, FACTORS, base=True)) - {"area[d]"} | {"area[a]"}
    assert set(model.feature_names_out_) == wanted


# ---- roles
def test_roles_by_name_are_used_again_where_the_table_has_them():
    rows = TABLE.drop(columns="claims")
    given = MODEL.predict(rows, exposure=TABLE.years.to_numpy())
    np.testing.assert_array_equal(MODEL.predict(rows), given)
    for a_year in (MODEL.predict(rows, exposure=1.0), MODEL.predict(rows.drop(columns="years"))):
        np.testing.assert_allclose(a_year * TABLE.years, given, rtol=1e-14)
    score = MODEL.score(rows, TABLE.claims)
    assert score == MODEL.score(rows, TABLE.claims, exposure=TABLE.years)


@pytest.mark.parametrize("where", ["fit", "schema"])
def test_a_search_scores_with_exposures(where):
    rows, folds = TABLE.drop(columns="claims"), KFold(3)
    schema = {**SCHEMA, "exposure": "years"} if where == "schema" else SCHEMA
    params = {"exposure": "years"} if where == "fit" else {}
    model = daskglm.PoissonRegressor(tol=1e-10, schema=schema)
    search = GridSearchCV(model, {"alpha": [1e-3, 0.1]}, cv=folds).fit(rows, TABLE.claims, **params)
    by_hand = []
    for alpha in (1e-3, 0.1):
        each = []
        for train, test in folds.split(rows):
            one = daskglm.PoissonRegressor(alpha=alpha, tol=1e-10, schema=SCHEMA)
            one.fit(rows.iloc[train], TABLE.claims[train], exposure="years")
            held = rows.iloc[test]
            each.append(one.score(held, TABLE.claims[test], exposure=held.years.to_numpy()))
        by_hand.append(np.mean(each))
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], by_hand, rtol=1e-9)
    scores = cross_val_score(
        model.set_params(alpha=0.1), rows, TABLE.claims, cv=folds, params=params
    )
    assert scores.mean() == pytest.approx(by_hand[1], rel=1e-9)


def test_weights_by_name_are_those_of_the_column():
    rows = TABLE.assign(w=np.arange(len(TABLE)) % 3)
    model = daskglm.Ridge(schema={**SCHEMA, "sample_weight": "w"}).fit(rows, "claims")
    plain = daskglm.Ridge(schema=SCHEMA).fit(TABLE, "claims", sample_weight=rows.w.to_numpy())
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-12)
    weighted = plain.score(TABLE, "claims", sample_weight=rows.w)
    assert model.score(rows, "claims") == pytest.approx(weighted, rel=1e-12)


# ---- what later rows may have
def test_rows_come_in_any_order_as_a_series_or_a_dict():
    means = MODEL.predict(TABLE)
    shuffled = TABLE[TABLE.columns[::-1]].assign(more="text")
    np.testing.assert_array_equal(MODEL.predict(shuffled), means)
    np.testing.assert_allclose(MODEL.predict(TABLE.iloc[3]), means[3:4])
    row = {name: TABLE[name][3] for name in TABLE.columns}
    np.testing.assert_allclose(MODEL.predict(row), means[3:4])
    with pytest.raises(ValueError, match="X lacks 1 of the columns of the fit: 'month'"):
        MODEL.predict(TABLE.drop(columns="month"))
    with pytest.raises(
        TypeError, match="ndarray, but the model was fitted to a table with the col"
    ):
        MODEL.predict(np.zeros((2, 6)))


def test_a_level_that_the_fit_has_not_seen():
    rows = TABLE.assign(area=TABLE.area.where(TABLE.index != 5, "new"))
    with pytest.raises(ValueError, match="row 5, column 'area' has the level 'new'.*6 levels are"):
        MODEL.predict(rows)
    with pytest.raises(ValueError, match="row 5, column 'area' has the level 'new'"):
        MODEL.predict(dd.from_pandas(rows, npartitions=2)).compute()
    for unseen, level in (("zero", None), ("reference", "a")):
        model = fitted(schema={**SCHEMA, "unseen": unseen})
        with pytest.warns(UnseenLevelWarning, match="1 rows have levels of 'area' .*new"):
            found = model.predict(rows)
        as_usual = model.predict(TABLE)
        coef = dict(zip(model.feature_names_out_, model.coef_, strict=True))
        shift = coef[f"area[{level}]"] if level else 0.0
        wanted = as_usual[5] * np.exp(shift - coef[f"area[{TABLE.area[5]}]"])
        assert found[5] == pytest.approx(wanted)
        np.testing.assert_array_equal(np.delete(found, 5), np.delete(as_usual, 5))


def test_missing_values_are_refused_or_have_a_place():
    rows = TABLE.assign(
        area=TABLE.area.where(TABLE.index % 7 > 0), power=TABLE.power.where(TABLE.index % 5 > 0)
    )
    with pytest.raises(
        ValueError, match="X contains NaN: row 0, column 'area'.*'missing': 'level'"
    ):
        fitted(rows, schema={**SCHEMA, "missing": "mean"})
    with pytest.raises(
        ValueError, match="X contains NaN: row 0, column 'power'.*'missing': 'mean'"
    ):
        fitted(rows, schema={**SCHEMA, "missing": "level"})
    model = fitted(rows, schema={**SCHEMA, "missing": ("level", "indicator")})
    names = model.feature_names_out_.tolist()
    assert "area[(missing)]" in names
    assert "power[(missing)]" in names
    filled = rows.assign(
        area=rows.area.fillna("absent"),
        power=rows.power.fillna(rows.power.mean()),
        lacks=rows.power.isna() * 1.0,
    )
    plain = fitted(filled)
    np.testing.assert_allclose(model.predict(rows), plain.predict(filled), rtol=1e-8)
    lazy = fitted(dd.from_pandas(rows, npartitions=4), schema=model.schema)
    np.testing.assert_allclose(lazy.coef_, model.coef_, atol=1e-10)


def test_levels_of_few_rows_share_a_coefficient():
    frame = TABLE.assign(area=TABLE.area.where(TABLE.index > 3, [*"pqrs", *TABLE.area[4:]]))
    model = fitted(frame, schema={**SCHEMA, "min_count": 2})
    assert "area[(rare)]" in model.feature_names_out_
    assert not {"area[p]", "area[s]"} & set(model.feature_names_out_)
    merged = fitted(frame.assign(area=frame.area.replace(list("pqrs"), "rare")))
    np.testing.assert_allclose(model.predict(frame), merged.predict(merged_rows(frame)), rtol=1e-9)


def merged_rows(frame):
    return frame.assign(area=frame.area.replace(list("pqrs"), "rare"))


def test_interactions_are_the_combinations_of_the_data():
    model = fitted(schema={**SCHEMA, "interactions": [("area", "brand")]})
    crossed = TABLE.assign(both=TABLE.area + ":" + TABLE.brand.astype(str))
    plain = fitted(crossed)
    assert "area[a]:brand[x]" in model.feature_names_out_
    np.testing.assert_allclose(model.predict(TABLE), plain.predict(crossed), rtol=1e-8)
    # without a penalty each combination is beside those of the base levels
    free = fitted(alpha=0.0, schema={**SCHEMA, "interactions": [("area", "brand")]})
    assert len(free.coef_) == 5 + 2 + 1 + 3 + 5 * 2 + 2
    alone = TABLE[~((TABLE.area == "a") & (TABLE.brand == "x"))]
    less = fitted(alone, schema={**SCHEMA, "interactions": [("area", "brand")]})
    assert "area[a]:brand[x]" not in less.feature_names_out_
    with pytest.raises(ValueError, match="has the combination area='a', brand='x'"):
        less.predict(TABLE)


@pytest.mark.parametrize("of", ["splines", "polynomials"])
def test_functions_of_a_column_are_a_table_of_its_values(of):
    model = fitted(schema={**SCHEMA, of: {"age": 4}})
    term = next(term for term in model.schema_.terms if term.name == "age")
    columns = term.evaluated(TABLE.age.to_numpy(float))
    assert columns.shape == (len(TABLE), 4)
    twin = one_hot(TABLE, ["area", "brand", "old", "month"]).drop(columns="age")
    for k in range(4):
        twin[f"age {k}"] = columns[:, k]
    plain = daskglm.PoissonRegressor(**HOW).fit(twin, TABLE.claims, exposure=TABLE.years)
    np.testing.assert_allclose(model.predict(TABLE), plain.predict(twin) * TABLE.years, rtol=1e-9)
    half = model.predict(TABLE.assign(age=30.5))  # between the values of the fit
    assert np.isfinite(half).all()
    assert (half != model.predict(TABLE.assign(age=30))).all()


# ---- penalties by names
def test_a_group_lasso_takes_factors_as_groups():
    model = fitted(alpha=0.02, l1_ratio=1.0, tol=1e-9, groups="factors")
    kept = {
        name.partition("[")[0]
        for name, w in zip(model.feature_names_out_, model.coef_, strict=True)
        if w
    }
    assert "area" not in kept
    of_area = [
        w
        for name, w in zip(model.feature_names_out_, model.coef_, strict=True)
        if name[:4] == "area"
    ]
    assert not any(of_area)
    with pytest.raises(ValueError, match="groups='factors' wants a table with factors"):
        daskglm.PoissonRegressor(l1_ratio=1.0, groups="factors").fit([[0.0], [1.0]], [1.0, 2.0])


def test_names_of_columns_mean_all_their_coefficients():
    model = fitted(penalty_factor={"area": 3.0, "brand[x]": 2.0})
    twin = one_hot(TABLE, FACTORS)
    factors = {**{f"area[{k}]": 3.0 for k in "abcdef"}, "brand[x]": 2.0}
    plain = daskglm.PoissonRegressor(**HOW, penalty_factor=factors)
    plain.fit(twin, TABLE.claims, exposure=TABLE.years)
    np.testing.assert_allclose(model.predict(TABLE), plain.predict(twin) * TABLE.years, rtol=1e-9)


def test_a_factor_without_a_penalty_has_a_base():
    model = fitted(penalty_factor={"area": 0.0})
    assert "area[a]" not in model.feature_names_out_
    assert "brand[x]" in model.feature_names_out_


# ---- other ways to fit
def test_searches_and_paths_take_tables():
    cv = daskglm.GeneralizedLinearRegressorCV("poisson", alphas=[0.1, 1e-3], cv=3, schema=SCHEMA)
    cv.fit(TABLE, "claims", exposure="years")
    assert cv.alpha_ in (0.1, 1e-3)
    assert len(cv.coef_) == len(cv.feature_names_out_)
    path = daskglm.fit(
        TABLE,
        "claims",
        family="poisson",
        alpha=[0.1, 1e-3],
        exposure="years",
        schema=SCHEMA,
        tol=1e-12,
    )
    np.testing.assert_allclose(path[1].coef_, MODEL.coef_, atol=1e-7)
    many = TABLE.claims.clip(upper=2)
    classes = daskglm.LogisticRegressionCV(Cs=2, cv=3, schema=SCHEMA).fit(
        TABLE.drop(columns=["claims", "years"]), many
    )
    assert classes.predict_proba(TABLE).shape == (len(TABLE), 3)
    assert 0.0 < classes.score(TABLE, many) < 1.0
    quantiles = daskglm.QuantileRegressor(quantile=[0.2, 0.8], alpha=0.1, schema=SCHEMA)
    assert quantiles.fit(TABLE, "claims").predict(TABLE).shape == (len(TABLE), 2)
    robust = daskglm.HuberRegressor(schema=SCHEMA).fit(TABLE, "claims")
    assert len(robust.outliers_) == len(TABLE)


def test_a_table_is_read_at_every_pass_out_of_core():
    lazy = dd.from_pandas(TABLE, npartitions=5)
    model = daskglm.fit(
        lazy, "claims", family="poisson", exposure="years", out_of_core=True, schema=SCHEMA, **HOW
    )
    np.testing.assert_allclose(model.coef_, MODEL.coef_, atol=1e-11)


@pytest.mark.slow
def test_a_table_is_fitted_on_two_workers(client):
    lazy = dd.from_pandas(TABLE, npartitions=5)
    for more in ({}, {"out_of_core": True}):
        model = daskglm.fit(
            lazy, "claims", family="poisson", exposure="years", schema=SCHEMA, **HOW, **more
        )
        assert model.report_.workers == 2
        assert model.feature_names_out_.tolist() == MODEL.feature_names_out_.tolist()
        np.testing.assert_allclose(model.coef_, MODEL.coef_, atol=1e-11)
    np.testing.assert_allclose(model.predict(lazy).compute(), MODEL.predict(TABLE), rtol=1e-9)
    residuals = model.residuals(lazy, "claims")
    np.testing.assert_allclose(residuals.compute(), MODEL.residuals(TABLE, "claims"), rtol=1e-9)
    assert (residuals.compute().index == TABLE.index).all()
    sent = daskglm.fit(
        TABLE, "claims", family="poisson", exposure="years", schema=SCHEMA, client=client, **HOW
    )
    np.testing.assert_allclose(sent.coef_, MODEL.coef_, atol=1e-11)


@pytest.mark.parametrize("kind", ["full", "small", "roles only"])
def test_a_model_of_a_table_is_saved_with_its_schema(tmp_path, kind):
    schema = {
        "full": {
            **SCHEMA,
            "missing": ("level", "indicator"),
            "unseen": "zero",
            "min_count": 2,
            "splines": {"age": 4},
            "interactions": [("area", "brand")],
            "base": {"area": "c"},
        },
        "small": SCHEMA,
        "roles only": {"exposure": "years", "numeric": ["month"]},
    }[kind]
    rows = TABLE if kind != "full" else TABLE.assign(power=TABLE.power.where(TABLE.index % 9 > 0))
    model = fitted(rows, schema=schema, penalty_factor={"brand": 0.5})
    daskglm.save(model, tmp_path / "model.json")
    again = daskglm.load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))
    assert again.schema_ == model.schema_
    assert again.roles_ == {"exposure": "years"}
    assert again.feature_names_out_.tolist() == model.feature_names_out_.tolist()
    assert again.score(rows, "claims") == model.score(rows, "claims")
    copy = daskglm.PoissonRegressor(**again.get_params(deep=False))
    copy.fit(rows, "claims", exposure="years")
    np.testing.assert_allclose(copy.coef_, model.coef_, atol=1e-9)


# ---- what is no table of levels
BAD = {
    "dates": (
        lambda f: f.assign(d=pd.Timestamp("2026-01-01")),
        "column 'd' has dtype datetime64.*days",
    ),
    "dates as objects": (
        lambda f: f.assign(d=[pd.Timestamp("2026-01-01").date()] * len(f)),
        "column 'd' has dates .date., which are not numbers.*days since",
    ),
    "durations": (lambda f: f.assign(d=pd.Timedelta("1D")), "column 'd' has dtype timedelta64"),
    "text and numbers": (
        lambda f: f.assign(d=["x", *range(1, len(f))]),
        "row 1, column 'd' is 1, but row 0 'x'",
    ),
    "lists": (lambda f: f.assign(d=[[1]] * len(f)), r"row 0, column 'd' is \[1\], a list"),
    "all missing": (lambda f: f.assign(d=pd.Series([None] * len(f), dtype="str")), "column 'd'"),
    "no number": (lambda f: f.assign(power=np.nan), "column 'power' has no value at all"),
    "infinite": (lambda f: f.assign(power=np.inf), "X contains infinity .*row 0, column 'power'"),
    "identifiers": (
        lambda f: f.assign(d=[f"id {i}" for i in range(len(f))]),
        r"column 'd' has 1,200 levels in 1,200 rows, such as 'id 0': it seems to name rows",
    ),
    "several identifiers": (
        lambda f: f.assign(**{name: [f"{name} {i}" for i in range(len(f))] for name in "deg"}),
        "column 'd' has 1,200 levels .*categories.*the same is true of 'e', 'g'$",
    ),
    "fractions as text": (
        lambda f: f.assign(d=[f"{i / 7}" for i in range(len(f))]),
        "column 'd' is text that reads as numbers, such as",
    ),
    "columns twice": (
        lambda f: pd.concat([f, f[["area"]]], axis=1),
        "more than one column of the name 'area'",
    ),
    "complex": (lambda f: f.assign(d=1j), "Complex data not supported: column 'd'"),
    "periods": (lambda f: f.assign(d=pd.Period("2026-01")), "column 'd' has dtype period"),
    "schema of no column": (
        lambda f: f.drop(columns="month"),
        "the schema names 'month', which is no",
    ),
}


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("kind", list(BAD))
def test_bad_tables_are_refused_with_what_to_do(kind, lazy):
    spoil, message = BAD[kind]
    rows = spoil(TABLE)
    if lazy:
        if kind in ("columns twice", "complex"):
            pytest.skip("dask has no such frame")
        with dask.config.set({"dataframe.convert-string": False}):
            rows = dd.from_pandas(rows, npartitions=2)
            with pytest.raises((ValueError, TypeError), match=message):
                fitted(rows)
        return
    with pytest.raises((ValueError, TypeError), match=message):
        fitted(rows)


@pytest.mark.parametrize("make", [list, tuple, np.array, pd.Index])
@pytest.mark.parametrize("role", ["y", "sample_weight", "offset", "exposure"])
def test_several_names_where_one_is_wanted_are_refused_as_names(role, make):
    rows = TABLE.assign(more=1.0)
    for names, message in ((["more"], f"give {role}='more'"), (["more", "area"], "give one of")):
        given = {role: make(names)}
        y = given.pop("y", np.ones(len(rows)))
        with pytest.raises(ValueError, match=message):
            daskglm.PoissonRegressor().fit(rows, y, **given)
        if role == "y":
            continue
        model = daskglm.PoissonRegressor().fit(TABLE, np.ones(len(rows)))
        with pytest.raises(ValueError, match=message):
            model.score(TABLE, np.ones(len(rows)), **given)
        if role != "sample_weight":
            with pytest.raises(ValueError, match=message):
                model.predict(TABLE, **given)


def test_labels_of_too_few_rows_are_no_names():
    with pytest.raises(ValueError, match="inconsistent numbers of samples: X 1200, y 1199"):
        daskglm.LogisticRegression().fit(TABLE, ["yes", "no"] * 599 + ["yes"])


def test_identifiers_that_are_named_are_levels():
    rows = TABLE.assign(d=[f"id {i // 2}" for i in range(len(TABLE))])
    model = fitted(rows, schema={"categories": ["d", "month"]})
    assert len(model.coef_) == len(MODEL.coef_) + len(TABLE) // 2


def test_levels_differ_among_partitions_in_kind():
    first = pd.DataFrame({"a": [1.0, 2.0], "y": [0, 1]})
    second = pd.DataFrame({"a": ["x", "y"], "y": [0, 1]})
    parts = [dask.delayed(part) for part in (first, second)]
    with dask.config.set({"dataframe.convert-string": False}):
        rows = dd.from_delayed(parts, meta=second.astype({"a": object}), verify_meta=False)
        with pytest.raises(ValueError, match="column 'a' has levels in partition 1 and numbers in"):
            daskglm.fit(rows, "y")


def test_a_partition_may_lack_levels_or_rows():
    by_area = TABLE.sort_values("area")
    cuts = [0, 0, 150, 700, len(TABLE)]
    parts = [by_area.iloc[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]
    lazy = dd.from_delayed([dask.delayed(part) for part in parts], meta=TABLE.iloc[:0])
    model = fitted(lazy)
    assert model.feature_names_out_.tolist() == MODEL.feature_names_out_.tolist()
    np.testing.assert_allclose(model.coef_, MODEL.coef_, atol=1e-11)


def test_one_level_and_levels_without_weight():
    rows = TABLE.assign(only="x", w=np.where(TABLE.area == "f", 0.0, 1.0))
    model = daskglm.PoissonRegressor(**HOW, schema=SCHEMA)
    model.fit(rows, "claims", exposure="years", sample_weight="w")
    coef = dict(zip(model.feature_names_out_, model.coef_, strict=True))
    assert coef["area[f]"] == 0.0
    assert abs(coef["only[x]"]) < 1e-6
    free = fitted(rows.drop(columns="w"), alpha=0.0)
    assert not any(name.startswith("only") for name in free.feature_names_out_)


def test_clusters_of_a_schema_are_those_of_inference_and_no_feature():
    rows = TABLE.assign(firm=np.arange(len(TABLE)) % 40)
    free = {"alpha": 0.0, "tol": 1e-12}
    model = daskglm.PoissonRegressor(**free, schema={**SCHEMA, "clusters": "firm"})
    model.fit(rows, "claims", exposure="years")
    assert "firm" not in model.feature_names_in_
    plain = daskglm.PoissonRegressor(**free, schema=SCHEMA)
    plain.fit(TABLE, "claims", exposure="years")
    found = model.inference(rows, "claims", covariance="cluster")
    wanted = plain.inference(TABLE, "claims", covariance="cluster", clusters=rows.firm)
    np.testing.assert_allclose(found.bse, wanted.bse, rtol=1e-9)
    np.testing.assert_allclose(
        model.inference(rows, "claims").bse, plain.inference(TABLE, "claims").bse
    )
    numbers = daskglm.Ridge(alpha=0.0, schema={"clusters": "firm"})
    numbers.fit(rows[["power", "age", "firm", "claims"]], "claims")
    assert len(numbers.coef_) == 2


@pytest.mark.slow
def test_a_table_is_fitted_from_an_event_loop(_cluster):
    from distributed import Client

    async def fit():
        async with Client(_cluster.scheduler_address, asynchronous=True):
            rows = dd.from_pandas(TABLE, npartitions=3)
            return await daskglm.fit(
                rows, "claims", family="poisson", exposure="years", schema=SCHEMA, **HOW
            )

    np.testing.assert_allclose(asyncio.run(fit()).coef_, MODEL.coef_, atol=1e-11)


# ---- dictionaries of Arrow
@pytest.mark.parametrize(
    ("levels", "found"), [(["a", None, "b"], "a (missing) b"), (["a", "b", "a"], "a b")]
)
def test_dictionaries_of_arrow_may_have_nulls_and_levels_twice(levels, found):
    codes = pa.array(np.arange(len(TABLE)) % 3)
    values = pd.Series(pd.array(pa.DictionaryArray.from_arrays(codes, pa.array(levels))))
    text = pd.Series([levels[k % 3] for k in range(len(TABLE))], dtype="str")
    schema = {"missing": "level"}
    one, other = (
        daskglm.fit(pd.DataFrame({"d": each}), TABLE.claims, family="poisson", schema=schema)
        for each in (values.astype(pd.ArrowDtype(values.array._pa_array.type)), text)
    )
    assert sorted(one.feature_names_out_) == sorted(f"d[{level}]" for level in found.split())
    np.testing.assert_array_equal(one.coef_, other.coef_)


def test_views_of_text_are_text():
    """pandas has no kind for them, and refuses to tell one."""
    text = [["a", None, "b"][k % 3] for k in range(len(TABLE))]
    views = pd.Series(pd.arrays.ArrowExtensionArray(pa.array(text, pa.string_view())))
    how = {"family": "poisson", "schema": {"missing": "level"}}
    one, other = (
        daskglm.fit(pd.DataFrame({"d": each, "x": TABLE["power"]}), TABLE.claims, **how)
        for each in (views, pd.Series(text, dtype="str"))
    )
    assert one.feature_names_out_.tolist() == other.feature_names_out_.tolist()
    np.testing.assert_array_equal(one.coef_, other.coef_)
    table = pd.DataFrame({"d": views, "x": TABLE["power"]})
    np.testing.assert_array_equal(one.predict(table), other.predict(table))
