"""Columns that depend on others, in fits without a penalty: against statsmodels and R's rule."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import daskglm
from daskglm.estimators.tables import AliasedColumnWarning


def nested(n=900, seed=0):
    """Cities within regions, and a column twice another."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"region": rng.choice(list("abc"), n)})
    frame["city"] = frame.region + rng.choice(list("xyz"), n)
    frame["x"] = rng.normal(size=n)
    frame["z"] = 2.0 * frame.x + 1.0
    frame["y"] = rng.poisson(np.exp(0.2 * frame.x + 0.1 * (frame.city == "bx")))
    return frame


FRAME = nested()
FREE = {"alpha": 0.0, "tol": 1e-12}
LEFT_OUT = ("city[bz]", "city[cz]", "z")


@pytest.mark.parametrize("lazy", [False, True])
def test_dependent_columns_are_left_out_in_their_order_as_r_does(lazy):
    rows = dd.from_pandas(FRAME, npartitions=3) if lazy else FRAME
    with pytest.warns(AliasedColumnWarning, match=r"3 columns depend .*city\[bz\], city\[cz\], z"):
        model = daskglm.PoissonRegressor(**FREE).fit(rows, "y")
    assert model.schema_.aliased == LEFT_OUT
    assert not set(LEFT_OUT) & set(model.feature_names_out_)
    assert model.report_.converged
    alone = daskglm.PoissonRegressor(**FREE).fit(FRAME[["city", "x", "y"]], "y")
    np.testing.assert_allclose(model.predict(FRAME), alone.predict(FRAME), rtol=1e-9)


def test_their_coefficients_are_nan_in_the_table():
    with pytest.warns(AliasedColumnWarning):
        model = daskglm.PoissonRegressor(**FREE).fit(FRAME, "y")
    table = model.inference(FRAME, "y").to_frame()
    assert table.index[-1] == "intercept"
    assert tuple(table.index[table.params.isna()]) == LEFT_OUT
    assert "nan" in str(model.inference(FRAME, "y"))


def test_they_may_be_refused_and_are_no_matter_with_a_penalty():
    with pytest.raises(
        ValueError, match="3 columns depend on others before them: .*leave them out"
    ):
        daskglm.PoissonRegressor(**FREE, schema={"aliased": "error"}).fit(FRAME, "y")
    model = daskglm.PoissonRegressor(alpha=0.1).fit(FRAME, "y")
    assert model.schema_.aliased == ()


def test_a_model_without_them_is_saved(tmp_path):
    with pytest.warns(AliasedColumnWarning):
        model = daskglm.PoissonRegressor(**FREE).fit(FRAME, "y")
    daskglm.save(model, tmp_path / "model.json")
    again = daskglm.load(tmp_path / "model.json")
    assert again.schema_ == model.schema_
    np.testing.assert_array_equal(again.predict(FRAME), model.predict(FRAME))
    np.testing.assert_allclose(again.scorer()(FRAME.iloc[4].to_dict()), model.predict(FRAME)[4])


def test_nearly_dependent_columns_stay():
    rng = np.random.default_rng(1)
    frame = FRAME[["region", "x"]].assign(near=FRAME.x + 1e-5 * rng.normal(size=len(FRAME)))
    model = daskglm.Ridge(alpha=0.0).fit(frame, FRAME.y)
    assert "near" in model.feature_names_out_
    with pytest.warns(AliasedColumnWarning, match="1 columns depend on others before them: near"):
        daskglm.Ridge(alpha=0.0).fit(frame.assign(near=frame.x + 1e-9 * frame.near), FRAME.y)


def test_classes_and_levels_without_weight():
    rows = FRAME.assign(w=np.where(FRAME.city == "ax", 0.0, 1.0), y=FRAME.y > 0)
    with pytest.warns(AliasedColumnWarning, match="depend on others"):
        model = daskglm.LogisticRegression(C=np.inf).fit(
            rows[["city", "w", "y"]], "y", sample_weight="w"
        )
    # the base level is one that no row of weight has
    assert len(model.schema_.aliased) == 1


@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
def test_independent_columns_are_told_by_the_fit_itself(monkeypatch, solver):
    def unasked(*_):
        raise AssertionError("looked for dependent columns in a load of its own")

    monkeypatch.setattr("daskglm.estimators.tables.dependent_columns", unasked)
    apart = FRAME[["city", "x", "y"]]
    model = daskglm.PoissonRegressor(**FREE, solver=solver).fit(apart, "y")
    assert model.schema_.aliased == ()
    with pytest.raises(AssertionError, match="a load of its own"):
        daskglm.PoissonRegressor(**FREE, solver=solver).fit(FRAME, "y")


@pytest.mark.parametrize("solver", ["newton", "lbfgs", "tron"])
@pytest.mark.filterwarnings("ignore::daskglm.estimators.tables.AliasedColumnWarning")
def test_all_solvers_leave_the_same_columns_out(solver):
    model = daskglm.PoissonRegressor(alpha=0.0, tol=1e-6, solver=solver).fit(FRAME, "y")
    assert model.schema_.aliased == LEFT_OUT
