"""Pipelines: names of encoded columns, columns beside the features by name, and scikit-learn's ways."""

import json
import pickle
import warnings

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.pipeline
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import VarianceThreshold
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import daskglm
from tests.frames.tables import counts

TABLE = counts()
NAMES = ["f__area_b", "f__area_c", "f__area_d", "f__area_e", "f__area_f", "f__brand_y"]
NAMES += ["f__brand_z", "n__power", "n__age"]


def encoder(output="sparse", numbers=None):
    codes = OneHotEncoder(drop="first", sparse_output=output == "sparse", dtype=np.float32)
    both = [("f", codes, ["area", "brand"]), ("n", numbers or StandardScaler(), ["power", "age"])]
    found = ColumnTransformer(both, sparse_threshold=1.0 if output == "sparse" else 0.0)
    return found.set_output(transform="pandas") if output == "pandas" else found


def pipeline(output="sparse", model=None, **more):
    model = model or daskglm.PoissonRegressor(alpha=0, tol=1e-12)
    return daskglm.Pipeline([("encode", encoder(output, **more)), ("model", model)])


@pytest.fixture(scope="module")
def fitted():
    return pipeline().fit(TABLE, "claims", model__exposure="years")


@pytest.mark.parametrize("output", ["sparse", "numpy", "pandas"])
def test_tables_have_the_names_of_the_encoder(output):
    pipe = pipeline(output).fit(TABLE, "claims", model__exposure="years")
    rows = pipe[:-1].transform(TABLE)
    assert sp.issparse(rows) == (output == "sparse")
    assert pipe[:-1].get_feature_names_out().tolist() == NAMES
    found = pipe.inference(TABLE, "claims")
    assert found.names == (*NAMES, "intercept")
    assert found.params.index.tolist()[:2] == NAMES[:2]
    assert "f__area_b" in str(found.summary())
    assert 0.0 < found.wald_test(["f__area_b", "f__area_c"]).pvalue < 1.0
    np.testing.assert_allclose(
        found.predict(rows, exposure=TABLE.years)["mean"], pipe.predict(TABLE)
    )
    beside = {"exposure": TABLE.years, "sample_weight": None}
    plain = daskglm.PoissonRegressor(alpha=0, tol=1e-12).fit(
        rows, TABLE.claims, exposure=TABLE.years
    )
    np.testing.assert_allclose(pipe[-1].coef_, plain.coef_, rtol=1e-9)
    np.testing.assert_allclose(
        found.bse, plain.inference(rows, TABLE.claims, **beside).bse, rtol=1e-6
    )


def test_the_model_keeps_names_that_its_rows_have_not(fitted):
    model = fitted[-1]
    assert model.feature_names_out_.tolist() == NAMES
    assert not hasattr(model, "feature_names_in_")
    again = pipeline().fit(TABLE, TABLE.claims)[-1]
    again.fit(TABLE[["power", "age"]].to_numpy(), TABLE.claims)
    assert not hasattr(again, "feature_names_out_")


# ---- names in errors, warnings and penalties
def test_errors_and_warnings_name_encoded_columns():
    rows = TABLE.assign(age=TABLE.age.where(TABLE.index != 5).astype(float))
    with pytest.raises(ValueError, match="X contains NaN: row 5, column 'n__age'"):
        pipeline("numpy", numbers="passthrough").fit(rows, "claims")
    none = TABLE.assign(claims=TABLE.claims.where(TABLE.area != "c", 0))
    with pytest.warns(ConvergenceWarning, match="f__area_c"):
        pipeline().fit(none, "claims")


def test_penalties_by_name():
    model = daskglm.PoissonRegressor(alpha=1.0, tol=1e-10, penalty_factor={"n__age": 0.0})
    pipe = pipeline(model=model).fit(TABLE, "claims")
    rows = pipe[:-1].transform(TABLE)
    factors = [1.0] * 8 + [0.0]
    plain = daskglm.PoissonRegressor(alpha=1.0, tol=1e-10, penalty_factor=factors)
    np.testing.assert_allclose(pipe[-1].coef_, plain.fit(rows, TABLE.claims).coef_, rtol=1e-6)


# ---- columns beside the features
def test_columns_by_name_are_used_again(fitted):
    given = pipeline().fit(TABLE, TABLE.claims, model__exposure=TABLE.years)
    assert fitted.roles_ == {"exposure": "years"}
    assert given.roles_ == {}
    np.testing.assert_array_equal(fitted[-1].coef_, given[-1].coef_)
    means = given.predict(TABLE, exposure=TABLE.years)
    np.testing.assert_array_equal(fitted.predict(TABLE), means)
    for a_year in (
        fitted.predict(TABLE, exposure=1.0),
        fitted.predict(TABLE.drop(columns="years")),
        fitted.predict(TABLE, offset=0.0),
        given.predict(TABLE),
    ):
        np.testing.assert_allclose(a_year * TABLE.years, means, rtol=1e-12)
    score = given.score(TABLE, TABLE.claims, exposure=TABLE.years)
    assert fitted.score(TABLE, "claims") == score == given.score(TABLE, "claims", exposure="years")
    with pytest.raises(ValueError, match="score got none: give the exposure"):
        given.score(TABLE, TABLE.claims)
    residuals = given.residuals(TABLE, TABLE.claims, exposure=TABLE.years)
    np.testing.assert_array_equal(fitted.residuals(TABLE, "claims"), residuals)
    months = {"covariance": "cluster", "clusters": "month"}
    by_month = given[-1].inference(
        given[:-1].transform(TABLE),
        TABLE.claims,
        exposure=TABLE.years,
        **{**months, "clusters": TABLE.month},
    )
    np.testing.assert_allclose(fitted.inference(TABLE, "claims", **months).bse, by_month.bse)


def test_the_steps_do_not_see_columns_beside_the_features():
    numbers = TABLE[["power", "age", "years", "claims"]].astype(float)
    steps = [("scale", StandardScaler()), ("model", daskglm.PoissonRegressor(alpha=0))]
    pipe = daskglm.Pipeline(steps).fit(numbers, "claims", model__exposure="years")
    assert pipe.feature_names_in_.tolist() == ["power", "age"]
    assert pipe[-1].feature_names_out_.tolist() == ["power", "age"]
    np.testing.assert_array_equal(
        pipe.predict(numbers), pipe.predict(numbers.drop(columns="claims"))
    )
    with pytest.raises(ValueError, match="Feature names unseen at fit time"):
        pipe.predict(numbers.assign(more=1.0))


def test_weights_by_name():
    rows = TABLE.assign(w=np.arange(len(TABLE)) % 3)
    pipe = pipeline(model=daskglm.Ridge()).fit(rows, "claims", model__sample_weight="w")
    plain = pipeline(model=daskglm.Ridge())
    plain.fit(TABLE, TABLE.claims, model__sample_weight=rows.w)
    np.testing.assert_array_equal(pipe.predict(rows), plain.predict(TABLE))
    weighted = plain.score(TABLE, TABLE.claims, sample_weight=rows.w)
    assert pipe.score(rows, "claims") == pytest.approx(weighted, rel=1e-12)


def test_a_name_of_an_encoded_column_is_left_to_the_model():
    pipe = pipeline("pandas", numbers="passthrough")
    pipe.fit(TABLE, TABLE.claims + 1, model__exposure="n__age")
    assert pipe.roles_ == {}
    assert pipe[-1].roles_ == {"exposure": "n__age"}
    assert "n__age" not in pipe.inference(TABLE, TABLE.claims + 1).names
    assert np.isfinite(pipe.score(TABLE, TABLE.claims + 1))


# ---- as scikit-learn's
def test_a_search_scores_with_exposures():
    rows, folds = TABLE.drop(columns="claims"), KFold(3)
    pipe = pipeline(model=daskglm.PoissonRegressor(tol=1e-10))
    search = GridSearchCV(pipe, {"model__alpha": [1e-3, 0.1]}, cv=folds)
    search.fit(rows, TABLE.claims, model__exposure="years")
    by_hand = []
    for train, test in folds.split(rows):
        one = clone(pipe).set_params(model__alpha=0.1)
        one.fit(rows.iloc[train], TABLE.claims[train], model__exposure="years")
        held = rows.iloc[test]
        by_hand.append(one.score(held, TABLE.claims[test], exposure=held.years))
    assert search.cv_results_["mean_test_score"][1] == pytest.approx(np.mean(by_hand), rel=1e-9)
    found = search.best_estimator_.inference(TABLE, "claims", penalized="effective")
    assert found.names == (*NAMES, "intercept")


def test_it_is_cloned_pickled_and_sliced(fitted):
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.predict(TABLE), fitted.predict(TABLE))
    assert copy.score(TABLE, "claims") == fitted.score(TABLE, "claims")
    assert type(clone(fitted)) is daskglm.Pipeline
    assert not hasattr(clone(fitted), "roles_")
    assert fitted.get_params().keys() >= {"model__alpha", "encode__f__drop", "memory"}
    assert isinstance(fitted, sklearn.pipeline.Pipeline)
    assert fitted.named_steps["model"] is fitted[-1]


def test_the_last_step_is_saved_with_its_names(tmp_path):
    model = daskglm.PoissonRegressor(
        l1_ratio=0.5, penalty_factor={"n__power": 0.0, "f__area_b": 2.0}
    )
    pipe = pipeline(model=model).fit(TABLE, "claims", model__exposure="years")
    rows = pipe[:-1].transform(TABLE)
    daskglm.save(pipe[-1], tmp_path / "model.json")
    again = daskglm.load(tmp_path / "model.json")
    assert list(again.feature_names_out_) == NAMES
    assert not hasattr(again, "feature_names_in_")
    np.testing.assert_array_equal(again.predict(rows), pipe[-1].predict(rows))
    daskglm.save(again, tmp_path / "again.json")
    files = [tmp_path / name for name in ("model.json", "again.json")]
    one, other = (json.loads(file.read_text()) for file in files)
    assert one["feature_names"] == other["feature_names"] == NAMES
    assert one["told"] is other["told"] is True
    text = files[0].read_text()
    for told in ("1", '"yes"', "null"):
        files[1].write_text(text.replace('"told": true', f'"told": {told}'))
        with pytest.raises(ValueError, match=r"again.json is damaged: told is"):
            daskglm.load(files[1])
    with pytest.raises(ValueError, match=r"cannot save a Pipeline; .*Save the model, its last st"):
        daskglm.save(pipe, tmp_path / "pipe.json")


def test_names_of_the_last_step_are_those_of_its_inference(tmp_path, fitted):
    daskglm.save(fitted[-1], tmp_path / "model.json")
    again = daskglm.load(tmp_path / "model.json")
    rows, claims = fitted[:-1].transform(TABLE), TABLE.claims
    assert again.inference(rows, claims, exposure=TABLE.years).names == (*NAMES, "intercept")


def test_classifiers_have_their_methods():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    pipes = [
        kind([("scale", StandardScaler()), ("model", daskglm.LogisticRegression(C=0.1))]).fit(X, y)
        for kind in (daskglm.Pipeline, sklearn.pipeline.Pipeline)
    ]
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        ours, theirs = (getattr(pipe, method)(X) for pipe in pipes)
        np.testing.assert_array_equal(ours, theirs)
    weight = np.arange(len(y)) % 3
    assert pipes[0].score(X, y, sample_weight=weight) == pipes[1].score(X, y, sample_weight=weight)
    assert not hasattr(pipeline(), "predict_proba")
    assert not hasattr(daskglm.Pipeline([("scale", StandardScaler())]), "inference")


def test_other_last_steps_and_lone_models():
    import sklearn.linear_model

    theirs = daskglm.Pipeline([("encode", encoder()), ("model", sklearn.linear_model.Ridge())])
    rows = TABLE.drop(columns="claims")
    assert theirs.fit(rows, TABLE.claims).predict(rows).shape == (len(rows),)
    alone = daskglm.Pipeline([("model", daskglm.PoissonRegressor(alpha=0))])
    alone.fit(TABLE, "claims", model__exposure="years")
    assert alone.inference(TABLE, "claims").names[0] == "area[b]"
    nothing = daskglm.Pipeline([("none", "passthrough"), ("model", daskglm.Ridge())])
    nothing.fit(TABLE[["power", "age"]], TABLE.claims)
    assert nothing[-1].feature_names_in_.tolist() == ["power", "age"]
    with pytest.raises(ValueError, match="empty"):
        daskglm.Pipeline([]).fit(rows, TABLE.claims)


def test_metadata_is_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        model = daskglm.PoissonRegressor(alpha=0).set_fit_request(exposure=True)
        pipe = pipeline(model=model.set_score_request(exposure=True))
        pipe.fit(TABLE, "claims", exposure="years")
        assert pipe.roles_ == {"exposure": "years"}
        assert pipe.score(TABLE, "claims") == pipe.score(TABLE, "claims", exposure=TABLE.years)


@pytest.mark.parametrize(
    "model",
    [
        daskglm.LogisticRegressionCV(Cs=2, cv=3),
        daskglm.GeneralizedLinearRegressorCV("poisson", alphas=[0.1, 0.01], cv=3),
        daskglm.LassoCV(alphas=[0.1, 0.01], cv=3),
        daskglm.QuantileRegressor(alpha=0.1),
        daskglm.HuberRegressor(),
        daskglm.OrdinalRegression(),
        daskglm.LinearSVC(),
        daskglm.LogisticRegression(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_kind_of_model_takes_names(model):
    pipe = pipeline(model=model).fit(TABLE, TABLE.claims.clip(upper=2))
    assert pipe[-1].feature_names_out_.tolist() == NAMES
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(pipe.predict(TABLE)) == len(TABLE)


# ---- encoders of dask collections
def one_hot(part, levels):
    return sp.csr_matrix(np.equal.outer(part["area"].to_numpy(), levels) * 1.0)


class DaskEncoder(TransformerMixin, BaseEstimator):
    """A stand-in for dask-ml's OneHotEncoder: a dask array of CSR chunks of a dask dataframe."""

    __sklearn_is_fitted__ = True

    def fit(self, X, y=None):
        self.levels_ = sorted(set(X.compute()["area"]))
        return self

    def transform(self, X):
        blocks = [
            da.from_delayed(part, (np.nan, len(self.levels_)), meta=sp.csr_matrix((0, 6)))
            for part in map(self._one, X.to_delayed())
        ]
        return da.concatenate(blocks, axis=0)

    def _one(self, part):
        return dask.delayed(one_hot)(part, self.levels_)

    def get_feature_names_out(self, input_features=None):
        return np.array([f"area_{level}" for level in self.levels_], dtype=object)


class Categorizer(TransformerMixin, BaseEstimator):
    """A stand-in for dask-ml's: it has no names to tell, since its frames have."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X.astype({"area": "category"}).categorize()


class DummyEncoder(Categorizer):
    """A stand-in for dask-ml's: a dask dataframe of zeros and ones."""

    def transform(self, X):
        return dd.get_dummies(X[["area"]], dtype=float)


@pytest.mark.parametrize("kind", ["arrays", "frames"])
def test_names_of_encoders_of_dask_collections(kind):
    lazy = dd.from_pandas(TABLE, npartitions=3)
    steps = [("levels", Categorizer())]
    steps.append(("encode", DaskEncoder() if kind == "arrays" else DummyEncoder()))
    pipe = daskglm.Pipeline([*steps, ("model", daskglm.PoissonRegressor(alpha=0.01, tol=1e-12))])
    pipe.fit(lazy, "claims", model__exposure="years")
    assert pipe.roles_ == {"exposure": "years"}
    wanted = tuple(f"area_{level}" for level in "abcdef")
    found = pipe.inference(lazy, "claims", penalized="effective")
    assert found.names == (*wanted, "intercept")
    assert np.isfinite(pipe.score(lazy, "claims"))
    means = pipe.predict(lazy)
    assert hasattr(means, "dask")
    columns = (TABLE.area.to_numpy()[:, None] == np.array(list("abcdef"))) * 1.0
    plain = daskglm.PoissonRegressor(alpha=0.01, tol=1e-12)
    plain.fit(columns, TABLE.claims, exposure=TABLE.years)
    np.testing.assert_allclose(means, plain.predict(columns, exposure=TABLE.years), rtol=1e-7)


def test_encoders_without_names_leave_none():
    class Nameless(Categorizer):
        def transform(self, X):
            return X[["power", "age"]].to_numpy()

    pipe = daskglm.Pipeline([("encode", Nameless()), ("model", daskglm.Ridge(alpha=0))])
    pipe.fit(TABLE, "claims")
    assert pipe.inference(TABLE, "claims").names == ("x0", "x1", "intercept")
    numbers = TABLE[["power", "age"]]
    scale = sklearn.pipeline.make_pipeline(StandardScaler(), VarianceThreshold())
    pipe = daskglm.Pipeline([("both", scale), ("model", daskglm.Ridge(alpha=0))])
    assert pipe.fit(numbers, TABLE.claims).inference(numbers, TABLE.claims).names[0] == "power"


# ---- frames with sparse columns
@pytest.mark.parametrize("kind", ["all columns", "most columns", "dask"])
def test_sparse_columns_of_pandas_stay_sparse(kind):
    columns = ["area", "brand", "month", "power", "age"]
    frame = pd.get_dummies(TABLE[columns], columns=columns[:3], sparse=True)
    whole = frame.astype({name: float for name in frame if name not in columns})
    if kind == "all columns":
        frame = pd.DataFrame.sparse.from_spmatrix(sp.csr_matrix(whole), columns=frame.columns)
    rows = daskglm.data.frames.frame_rows(frame, daskglm.data.values.Place())
    assert sp.issparse(rows)
    np.testing.assert_array_equal(rows.toarray(), whole)
    y, years = TABLE.claims, TABLE.years
    if kind == "dask":
        frame, y, years = (dd.from_pandas(each, npartitions=3) for each in (frame, y, years))
    model = daskglm.PoissonRegressor(alpha=1e-3, tol=1e-13).fit(frame, y, exposure=years)
    plain = daskglm.PoissonRegressor(alpha=1e-3, tol=1e-13)
    plain.fit(whole, TABLE.claims, exposure=TABLE.years)
    assert model.feature_names_in_.tolist() == list(whole)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-11)
    np.testing.assert_allclose(model.predict(frame), plain.predict(whole), rtol=1e-9)
    assert model.score(frame, y, exposure=years) == pytest.approx(
        plain.score(whole, TABLE.claims, exposure=TABLE.years)
    )


def test_bad_values_of_sparse_columns_are_named():
    values = sp.csr_matrix([[0.0, 1.0], [np.nan, 0.0], [1.0, 2.0]])
    frame = pd.DataFrame.sparse.from_spmatrix(values, columns=["a", "b"])
    with pytest.raises(ValueError, match="X contains NaN: row 1, column 'a'"):
        daskglm.Ridge().fit(frame, [1.0, 2.0, 3.0])
    frame = pd.DataFrame.sparse.from_spmatrix(sp.eye(3, format="csr"), columns=list("abc"))
    model = daskglm.Ridge().fit(frame, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="columns of the fit|feature names should match"):
        model.predict(frame.rename(columns={"a": "x"}))
    # filled with another number than 0 they are columns of numbers
    ones = frame.assign(c=pd.arrays.SparseArray([1.0, 1.0, 2.0], fill_value=1.0))
    assert daskglm.Ridge().fit(ones, [1.0, 2.0, 3.0]).coef_.shape == (3,)
    levels = daskglm.Ridge(schema={"categories": ["a"]}).fit(frame, [1.0, 2.0, 3.0])
    assert levels.feature_names_out_.tolist() == ["a[0]", "a[1]", "b", "c"]
