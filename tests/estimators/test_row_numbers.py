"""Residuals and leverages: statsmodels' numbers, in every container, lazily, row by row as given."""

import warnings

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import daskglm
from tests.covering import each_choice
from tests.estimators.inference_cases import CASES, data_of, fitted

KINDS = ("response", "working", "pearson", "deviance", "anscombe")
NAMES = list("abc")
DATA = data_of(CASES["poisson"], n=900)
FRAME = pd.DataFrame(DATA.X, columns=NAMES, index=np.arange(900)[::-1] * 2)
FRAME = FRAME.assign(y=DATA.y, w=DATA.weight, o=DATA.offset, e=np.exp(DATA.offset))
PLAIN = daskglm.GeneralizedLinearRegressor("poisson", alpha=0, tol=1e-13)
PLAIN.fit(DATA.X, DATA.y, DATA.weight, offset=DATA.offset)
NAMED = daskglm.GeneralizedLinearRegressor("poisson", alpha=0, tol=1e-13)
NAMED.fit(FRAME[NAMES], DATA.y, DATA.weight, offset=DATA.offset)


def beside(data):
    return {} if data.offset is None else {"offset": data.offset}


def close(found, wanted, atol=1e-8):
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-8, atol=atol)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", list(CASES))
def test_residuals_are_those_of_statsmodels(name, weighted):
    sm = pytest.importorskip("statsmodels.api")
    case, data = CASES[name], data_of(CASES[name])
    weight = data.weight if weighted else None
    model = fitted(name, data.X, data.y, weight, **beside(data))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of links that do not keep means positive
        of = sm.GLM(
            data.y,
            data.with_constant,
            family=case.family_of(sm),
            var_weights=weight,
            **beside(data),
        )
        start = np.append(model.coef_, model.intercept_)
        wanted = of.fit(start_params=start, tol=1e-15, tol_criterion="params", maxiter=300)
    for kind in KINDS:
        found = model.residuals(data.X, data.y, weight, kind=kind, **beside(data))
        # at scale one; statsmodels divides those of Anscombe by the root of its estimate
        theirs = "anscombe_unscaled" if kind == "anscombe" else kind
        close(found, getattr(wanted, f"resid_{theirs}"))


def test_sums_of_squared_residuals_are_the_statistics_of_the_fit():
    given = DATA.X, DATA.y, DATA.weight
    found = PLAIN.inference(*given, offset=DATA.offset)
    squares = {
        kind: (PLAIN.residuals(*given, kind=kind, offset=DATA.offset) ** 2).sum() for kind in KINDS
    }
    assert squares["deviance"] == pytest.approx(found.deviance, rel=1e-12)
    assert squares["pearson"] == pytest.approx(found.pearson_chi2, rel=1e-12)


def test_shares_of_trials():
    sm = pytest.importorskip("statsmodels.api")
    data = data_of(CASES["binomial"])
    trials = data.weight + 4.0
    good = np.random.default_rng(1).binomial(trials.astype(int), 0.3 + 0.2 * data.y)
    good[:5], good[5:10] = 0, trials[5:10]
    both = np.column_stack([good, trials - good])
    of = sm.GLM(both, data.with_constant, family=sm.families.Binomial()).fit(tol=1e-14)
    model = fitted("binomial", data.X, good / trials, trials)
    for kind in ("pearson", "deviance", "anscombe"):
        found = model.residuals(data.X, good / trials, trials, kind=kind)
        close(found, getattr(of, f"resid_{kind}"))
    response = model.residuals(data.X, good / trials)
    close(response, good / trials - of.fittedvalues)
    hat = model.inference(data.X, good / trials, trials).leverage(data.X, good / trials, trials)
    close(hat, of.get_hat_matrix_diag())


def test_labels_are_zero_and_one():
    data = data_of(CASES["logistic"])
    labels = np.where(data.y > 0, "yes", "no")
    model = daskglm.LogisticRegression(C=np.inf, tol=1e-13).fit(data.X, labels)
    p = model.predict_proba(data.X)[:, 1]
    close(model.residuals(data.X, labels), data.y - p)
    close(
        model.residuals(data.X, labels, kind="deviance"),
        np.sign(data.y - p) * np.sqrt(-2 * np.log(np.where(data.y > 0, p, 1 - p))),
    )
    # rows of one class only, and labels that the fit has not seen
    close(model.residuals(data.X[data.y > 0], labels[data.y > 0]), 1.0 - p[data.y > 0])
    with pytest.raises(ValueError, match=r"y has the label 'maybe', but .* \['no', 'yes'\]"):
        model.residuals(data.X, np.where(data.X[:, 0] > 0, "maybe", labels))


def test_parameters_that_were_estimated_are_those_of_the_residuals():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((500, 3))
    mu = np.exp(0.5 + X @ [0.5, -0.2, 0.0])
    y = rng.negative_binomial(1 / 3, 1 / (1 + 3 * mu)).astype(float)
    model = daskglm.GeneralizedLinearRegressor("negative_binomial(estimate)", alpha=0, tol=1e-12)
    model.fit(X, y)
    fixed = daskglm.GeneralizedLinearRegressor(
        f"negative_binomial({model.theta_})", alpha=0, tol=1e-12
    ).fit(X, y)
    for kind in KINDS:
        close(model.residuals(X, y, kind=kind), fixed.residuals(X, y, kind=kind), atol=1e-5)


def test_penalised_fits_have_residuals():
    data = data_of(CASES["poisson"])
    model = daskglm.PoissonRegressor(alpha=0.5).fit(data.X, data.y)
    close(model.residuals(data.X, data.y), data.y - model.predict(data.X), atol=1e-12)


# ---- containers
def lazy(npartitions=4):
    return dd.from_pandas(FRAME, npartitions=npartitions, sort=False)


def chunked(values):
    return da.from_array(values, chunks=(250, *values.shape[1:]))


def delayed(values):
    return [dask.delayed(values[a:b]) for a, b in ((0, 400), (400, 410), (410, 900))]


COLUMNS = DATA.X, DATA.y, DATA.weight, DATA.offset
CONTAINERS = {
    "lists": lambda: [values.tolist() for values in COLUMNS],
    "sparse": lambda: (sp.csc_matrix(DATA.X), *COLUMNS[1:]),
    "float32": lambda: (DATA.X.astype(np.float32), *COLUMNS[1:]),
    "frame": lambda: (FRAME[NAMES], FRAME["y"], FRAME["w"], FRAME["o"]),
    "frame and names": lambda: (FRAME[[*NAMES, "y", "w", "o"]], "y", "w", "o"),
    "dask array": lambda: tuple(map(chunked, COLUMNS)),
    "dask array and NumPy": lambda: (chunked(DATA.X), *COLUMNS[1:]),
    "sparse chunks": lambda: (
        chunked(DATA.X).map_blocks(sp.csr_matrix),
        *map(chunked, COLUMNS[1:]),
    ),
    "dask dataframe": lambda: (lazy()[NAMES], lazy()["y"], lazy()["w"], lazy()["o"]),
    "dask dataframe and names": lambda: (lazy()[[*NAMES, "y", "w", "o"]], "y", "w", "o"),
    "delayed": lambda: tuple(map(delayed, COLUMNS)),
}
WANTED = {kind: PLAIN.residuals(*COLUMNS[:3], kind=kind, offset=DATA.offset) for kind in KINDS} | {
    "leverage": PLAIN.inference(*COLUMNS[:3], offset=DATA.offset).leverage(
        *COLUMNS[:3], offset=DATA.offset
    )
}


def numbers(X, y, weight, offset, kind):
    model = NAMED if hasattr(X, "columns") else PLAIN
    if kind == "leverage":
        found = model.inference(X, y, weight, offset=offset)
        return found.leverage(X, y, weight, offset=offset)
    return model.residuals(X, y, weight, kind=kind, offset=offset)


def in_memory(found):
    if isinstance(found, list):
        return np.concatenate(dask.compute(*found))
    return found.compute() if hasattr(found, "compute") else found


@each_choice
@pytest.mark.parametrize("kind", ["deviance", "leverage"])
@pytest.mark.parametrize("container", list(CONTAINERS))
def test_every_container_has_the_same_numbers(container, kind):
    X, *others = CONTAINERS[container]()
    found = numbers(X, *others, kind)
    computed = in_memory(found)
    close(computed, WANTED[kind], atol=1e-5 if container == "float32" else 1e-8)
    if isinstance(X, list) and hasattr(X[0], "compute"):
        assert isinstance(found, list)
    elif hasattr(X, "npartitions"):
        assert type(found).__module__.startswith(type(X).__module__.split(".")[0])
        assert found.npartitions == X.npartitions
    else:
        assert isinstance(found, np.ndarray)


@each_choice
@pytest.mark.parametrize("container", ["dask dataframe", "dask array", "delayed"])
@pytest.mark.parametrize("kind", [*KINDS, "leverage"])
def test_numbers_by_workers(client, container, kind):
    close(in_memory(numbers(*CONTAINERS[container](), kind)), WANTED[kind])


def test_series_keep_the_index_and_the_divisions():
    frame = dd.from_pandas(FRAME.sort_index(), npartitions=4)
    found = NAMED.residuals(frame[NAMES], frame["y"], frame["w"], offset=frame["o"])
    assert found.divisions == frame.divisions
    whole = found.compute()
    assert whole.index.equals(FRAME.sort_index().index)
    close(whole.loc[FRAME.index], WANTED["response"])
    close(found.loc[10:20].compute(), whole.loc[10:20])
    unsorted = dd.from_pandas(FRAME, npartitions=4, sort=False)
    found = NAMED.residuals(unsorted[NAMES], unsorted["y"], offset=unsorted["o"]).compute()
    assert found.index.equals(FRAME.index)
    close(found, WANTED["response"])


def test_rows_of_unknown_number():
    X, y = chunked(DATA.X), chunked(DATA.y)
    keep = X[:, 0] > 0
    found = PLAIN.residuals(X[keep], y[keep], offset=chunked(DATA.offset)[keep])
    close(found.compute(), WANTED["response"][DATA.X[:, 0] > 0])


def test_empty_partitions_have_no_numbers():
    frame = lazy()
    frame = frame[frame["a"] > 0.5]
    frame = dd.concat([frame, frame[frame["a"] > 5.0]])
    found = NAMED.residuals(frame[[*NAMES, "y", "o"]], "y", offset="o").compute()
    kept = FRAME["a"] > 0.5
    close(found, WANTED["response"][kept])


def test_exposures_are_offsets():
    found = PLAIN.residuals(
        DATA.X, DATA.y, DATA.weight, exposure=np.exp(DATA.offset), kind="pearson"
    )
    close(found, WANTED["pearson"])
    frame = lazy()[[*NAMES, "y", "w", "e"]]
    found = NAMED.residuals(frame, "y", "w", exposure="e", kind="pearson")
    close(found.compute(), WANTED["pearson"])


def test_nothing_is_computed_before_it_is_asked_for():
    def refuse(part):
        raise AssertionError("computed")

    X = chunked(DATA.X).map_blocks(refuse, dtype=float, meta=np.empty((0, 3)))
    PLAIN.residuals(X, chunked(DATA.y), offset=chunked(DATA.offset))


# ---- refused
def test_rows_that_do_not_belong_together_are_refused():
    frame, other = lazy(), dd.from_pandas(FRAME.iloc[::-1], npartitions=4, sort=False)
    found = NAMED.residuals(frame[NAMES], other["y"], offset=0.0)
    with pytest.raises(ValueError, match="the index of y is not that of X"):
        found.compute()
    with pytest.raises(ValueError, match="inconsistent numbers of samples: X 900, y 899"):
        PLAIN.residuals(DATA.X, DATA.y[1:], offset=0.0)
    with pytest.raises(ValueError, match="fitted with an offset, and residuals got none"):
        PLAIN.residuals(DATA.X, DATA.y)
    with pytest.raises(ValueError, match="feature names should match"):
        NAMED.residuals(FRAME[["b", "a", "c"]], DATA.y, offset=0.0)
    with pytest.raises(ValueError, match="X has 2 features, but .* 3 features"):
        PLAIN.residuals(DATA.X[:, :2], DATA.y, offset=0.0)
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        PLAIN.residuals(DATA.X, None, offset=0.0)
    with pytest.raises(ValueError, match="y is -1, but poisson has targets at least 0"):
        PLAIN.residuals(DATA.X, np.full(900, -1.0), offset=0.0)
    found = PLAIN.inference(DATA.X, DATA.y, DATA.weight, offset=DATA.offset)
    with pytest.raises(ValueError, match="X has 2 features, but .* 3 features"):
        found.leverage(DATA.X[:, :2], DATA.y)
    named = NAMED.inference(FRAME[NAMES], DATA.y, DATA.weight, offset=DATA.offset)
    with pytest.raises(ValueError, match="feature names should match"):
        named.leverage(FRAME[["b", "a", "c"]], DATA.y)


def test_losses_of_no_family_have_differences_only():
    huber = daskglm.LinearRegressor("huber(1.0)").fit(DATA.X, DATA.y)
    close(huber.residuals(DATA.X, DATA.y), DATA.y - huber.predict(DATA.X))
    with pytest.raises(
        ValueError, match=r"'pearson': loss='huber\(1.0\)' is of no family.*respons"
    ):
        huber.residuals(DATA.X, DATA.y, kind="pearson")
    svm = daskglm.LinearSVC().fit(DATA.X, DATA.y > 1)
    with pytest.raises(ValueError, match="'squared_hinge' is of no family .* have no mean"):
        svm.residuals(DATA.X, DATA.y > 1)
    with pytest.raises(ValueError, match="kind='raw' is not one of 'response', 'working'"):
        PLAIN.residuals(DATA.X, DATA.y, kind="raw")


def test_several_vectors_of_coefficients_are_refused():
    classes = np.digitize(DATA.y, [1, 3])
    for model in (
        daskglm.LogisticRegression(),
        daskglm.LogisticRegression(multi_class="ovr"),
        daskglm.OrdinalRegression(),
    ):
        with pytest.raises(ValueError, match="residuals are of one vector of coefficients"):
            model.fit(DATA.X, classes).residuals(DATA.X, classes)
    two = daskglm.Ridge().fit(DATA.X, np.stack([DATA.y, DATA.y], axis=1))
    with pytest.raises(ValueError, match="give two classes, or one target"):
        two.residuals(DATA.X, DATA.y)
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        daskglm.PoissonRegressor().residuals(DATA.X, DATA.y)


def test_leverages_have_the_weights_of_classes():
    data = data_of(CASES["logistic"])
    model = daskglm.LogisticRegression(C=np.inf, class_weight={0: 3.0, 1: 1.0}, tol=1e-13)
    model.fit(data.X, data.y, data.weight)
    found = model.inference(data.X, data.y, data.weight)
    p = model.predict_proba(data.X)[:, 1]
    f = data.weight * np.where(data.y > 0, 1.0, 3.0) * p * (1 - p)
    x = data.with_constant
    P = np.linalg.inv(x.T @ (f[:, None] * x))
    close(found.leverage(data.X, data.y, data.weight), f * np.einsum("ij,jk,ik->i", x, P, x))
