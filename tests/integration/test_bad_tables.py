"""Every bad table of `tests/integration/bad_tables.py` at every face, and that nothing is warned of beside the error."""

import warnings

import dask
import dask.dataframe as dd
import numpy as np
import pytest

import daskglm
from tests.frames.tables import counts
from tests.integration.bad_tables import COLUMNS, LATER_ROWS, SCHEMAS, VALUES

TABLE = counts()
USUAL = {"categories": ["month"]}
MODEL = daskglm.PoissonRegressor(alpha=0.0, schema=USUAL).fit(TABLE, "claims", exposure="years")
INFERENCE = MODEL.inference(TABLE, "claims")


def lazy(table):
    with dask.config.set({"dataframe.convert-string": False}):
        return dd.from_pandas(table, npartitions=1)


def fit(table, schema, **more):
    how = {"family": "poisson", "exposure": "years", "schema": schema, **more}
    return daskglm.fit(table, "claims", **how)


FACES = {
    "fit": fit,
    "estimator": lambda t, s: daskglm.PoissonRegressor(schema=s).fit(t, "claims", exposure="years"),
    "dask": lambda t, s: fit(lazy(t), s),
    "cv": lambda t, s: daskglm.LogisticRegressionCV(Cs=2, cv=2, schema=s).fit(
        t, np.arange(len(t)) % 2
    ),
    "path": lambda t, s: fit(t, s, alpha=[0.1, 1.0]),
    "predict": lambda t, s: MODEL.predict(t),
    "predict dask": lambda t, s: MODEL.predict(lazy(t)).compute(),
    "score": lambda t, s: MODEL.score(t, "claims"),
    "inference": lambda t, s: MODEL.inference(t, "claims"),
    "residuals": lambda t, s: MODEL.residuals(t, "claims"),
    "scorer": lambda t, s: MODEL.scorer()(t.iloc[7].to_dict()),
}
ROWS = [*COLUMNS, *VALUES, *SCHEMAS, *LATER_ROWS]


@pytest.mark.parametrize(
    ("row", "face"),
    [pytest.param(row, face, id=f"{row.id}, {face}") for row in ROWS for face in row.faces],
)
def test_bad_tables_are_refused_with_what_to_do(row, face):
    table = row.spoil(TABLE)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with (
            dask.config.set({"dataframe.convert-string": False}),
            pytest.raises((ValueError, TypeError), match=f"(?s){row.says}"),
        ):
            FACES[face](table, USUAL if row.schema is None else row.schema)
    assert not warned, [str(warning.message) for warning in warned]


def test_the_table_has_sixty_rows_and_each_a_name():
    for rows in (COLUMNS, VALUES, SCHEMAS, LATER_ROWS):
        assert len({row.id for row in rows}) == len(rows)
    assert len(ROWS) >= 60
