"""The proved gap is never less than the truth, whatever rounding does: against sums and optima in long double."""

import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.certificates import rounding
from daskglm.certificates.hessian_factor import HessianFactor, excess
from daskglm.core.device import to_host
from daskglm.core.requests import Problem
from daskglm.data.blocks import Place, to_block
from daskglm.engines.local import Local
from daskglm.kernels import gram
from daskglm.losses.table import LOSSES
from daskglm.objectives.primal import Objective
from tests.conftest import make_problem
from tests.covering import each_choice
from tests.oracle.losses import loss_of
from tests.oracle.problem import LONG, Reference
from tests.seeds import is_many, of_the_commit_or

LOSS_NAMES = ["logistic", "squared_hinge", "smoothed_hinge", "squared", "hinge"]


def hurt(rng):
    """Rows that make floating point suffer: near copies of columns, offsets, scales."""
    n, d = int(rng.integers(5, 200)), int(rng.integers(1, 6))
    X = rng.standard_normal((n, d))
    if rng.random() < 0.5:
        X = rng.standard_normal((n, 1)) + 10 ** rng.uniform(-6, -1) * X
    if rng.random() < 0.5:
        X = X + 10 ** rng.uniform(1, 5) * rng.choice([-1, 1], d)
    if rng.random() < 0.3:
        X = X * 10 ** rng.uniform(-3, 3, d)
    dtype = rng.choice(["float32", "float64"])
    X = X.astype(dtype)
    if rng.random() < 0.2:
        X = sp.csr_matrix(X * (rng.random(X.shape) < 0.5).astype(dtype))
    return X


def check_one(seed):
    """Fit one random problem; return whether it converged. The bound must not be below the truth."""
    rng = np.random.default_rng(seed)
    X = hurt(rng)
    n, d = X.shape
    name, C, intercept = (
        str(rng.choice(LOSS_NAMES)),
        float(10 ** rng.uniform(-3, 4)),
        bool(rng.integers(2)),
    )
    columns = np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)
    z = (
        (columns - columns.mean(axis=0))
        / np.maximum(columns.std(axis=0), 1e-12)
        @ rng.standard_normal(d)
    )
    y = z + rng.standard_normal(n)
    if name != "squared":
        y = np.where(y > 0, 1.0, -1.0)
        y[:2] = 1.0, -1.0
    solver = str(
        rng.choice(["auto", "newton", "newton", "newton", "tron", "lbfgs", "gd", "sdca", "path"])
    )
    solver = "sdca" if name == "hinge" else solver
    options = {"loss": name, "fit_intercept": intercept, "tol": float(10 ** rng.uniform(-12, -1))}
    if solver in ("gd", "sdca"):
        options |= {"max_iter": 30, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if solver == "path":
            model = daskglm.fit(X, y, C=[C / 10, C], **options)[1]
        else:
            model = daskglm.fit(X, y, C=C, solver=solver, **options)
    assert_bound(Reference(name, X, y, C, intercept), model, f"seed {seed}, {solver}")
    return model.report_.converged


def assert_bound(reference, model, what=""):
    """The model's objective exceeds the least one by no more than its report says."""
    w, b = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
    report = model.report_.parts[0] if model.report_.parts else model.report_
    value, least, told = reference.value(w, b), reference.least(), report.relative_gap
    assert value - least <= told * (1 + 1e-6) * least + reference.noise(w, b), (
        f"{what}: {report.solver} told {told:.3e}, true is {float((value - least) / least):.3e}"
    )


@pytest.mark.parametrize("first", [0, 50])
def test_the_bound_of_a_hard_problem_is_not_below_the_truth(first):
    converged = [check_one(seed) for seed in range(first, first + 50)]
    assert np.mean(converged) > 0.6


@of_the_commit_or(range(1000, 6000))
def test_the_bounds_of_many_hard_problems_are_not_below_the_truth(seeds):
    converged = [check_one(seed) for seed in seeds]
    assert np.mean(converged) > 0.6 or not is_many(seeds)


def test_the_bound_of_two_classes_without_a_penalty_is_not_below_the_truth():
    proved = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X, intercept = hurt(rng), bool(rng.integers(2))
        columns = np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)
        z = (columns - columns.mean(axis=0)) @ rng.standard_normal(columns.shape[1])
        y = np.where(rng.logistic(size=len(z)) < z / max(z.std(), 1e-12), 1.0, -1.0)
        y[:2] = 1.0, -1.0
        tol, solver = float(10 ** rng.uniform(-12, -1)), str(rng.choice(["newton", "lbfgs"]))
        options = {"fit_intercept": intercept, "tol": tol, "solver": solver}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = daskglm.fit(X, y, C=math.inf, **options)
        if math.isfinite(model.report_.relative_gap):
            proved += 1
            reference = Reference("logistic", X, y, math.inf, intercept)
            assert_bound(reference, model, f"seed {seed}, {solver}")
    assert proved > 20


# ---- what was false
@pytest.mark.parametrize("delta", [1e-5, 1e-4, 1e-3])
def test_nearly_equal_columns_of_float32(delta):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        common = rng.standard_normal((300, 1))
        X = (common + delta * rng.standard_normal((300, 2))).astype(np.float32)
        y = common[:, 0] + rng.standard_normal(300)
        model = daskglm.fit(
            X, y, loss="squared", C=3485, tol=1e-5, fit_intercept=False, solver="newton"
        )
        assert model.report_.converged
        assert_bound(Reference("squared", X, y, 3485, False), model)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [1e2, 1e4, 1e5])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_an_offset_of_all_columns_costs_a_few_passes(loss, offset, dtype):
    X, y = make_problem(3000, 5, loss=loss, seed=1)
    X = (X + offset).astype(dtype)
    model = daskglm.fit(X, y, loss=loss)
    assert model.report_.converged
    assert model.report_.passes <= 12
    assert_bound(Reference(loss, X, y, 1.0, True), model)


@pytest.mark.parametrize("offset", [1e3, 1e4])
def test_an_offset_does_not_keep_a_path_or_folds_from_their_bounds(offset):
    X, y = make_problem(2000, 5, seed=1)
    X = (X + offset).astype(np.float32)
    for model, C in zip(daskglm.fit(X, y, C=[0.01, 1.0, 100.0]), [0.01, 1.0, 100.0], strict=True):
        reference = Reference("logistic", X, y, C, True)
        best = reference.least()
        assert model.report_.converged
        assert (
            reference.value(model.coef_[0], model.intercept_[0]) - best
        ) / best <= model.report_.relative_gap + 1e-17
    assert daskglm.LogisticRegressionCV(Cs=[0.1, 10.0], cv=3).fit(X, y).report_.converged


@pytest.mark.parametrize("seed", [159, 200, 213, 251, 275])
def test_a_step_that_is_next_to_nothing_is_not_multiplied(seed):
    """The shared vector parted from the dual variables: bounds of 0 and 1e-13 where 3e-2 and 1e-6 were true."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(5, 200)), int(rng.integers(1, 6))
    X = rng.standard_normal((n, d))
    if rng.random() < 0.3:
        X = X + 10 ** rng.uniform(0, 2) * rng.choice([-1, 1], d)
    X = X.astype(rng.choice(["float32", "float64"]))
    y = np.where(X.astype(float) @ rng.standard_normal(d) + rng.standard_normal(n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    C, intercept, tol = (
        float(10 ** rng.uniform(-2, 2)),
        bool(rng.integers(2)),
        float(10 ** rng.uniform(-10, -2)),
    )
    options = {
        "fit_intercept": intercept,
        "tol": tol,
        "solver": "sdca",
        "max_iter": 30,
        "random_state": 0,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = daskglm.fit(X, y, loss="hinge", C=C, **options)
    assert_bound(Reference("hinge", X, y, C, intercept), model)


def test_grams_of_sparse_rows_of_float32_are_in_doubt_in_paths_too():
    check_one(2643)


# ---- the pieces
def whole_objective(X, y, loss="logistic", C=1.0, intercept=True):
    record = LOSSES[loss]
    engine = Local([to_block(X, y, place=Place(), classify=record.classifies)], 2)
    problem = Problem(record.ref, 1.0 if record.classifies else None)
    intercept_radius = record.largest_intercept_radius(1.0, 1.0, float(np.abs(y).max()))
    return Objective(
        engine, problem, record, C=C, fit_intercept=intercept, intercept_radius=intercept_radius
    )


@each_choice
@pytest.mark.parametrize("d", [1, 7, 28, 64, 65, 150])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_errors_of_gradient_and_hessian_are_within_their_bounds(d, offset):
    rng = np.random.default_rng(d)
    X = (rng.standard_normal((2000, d)) + offset).astype(np.float32)
    y = np.where(rng.random(2000) < 0.5, 1.0, -1.0)
    objective = whole_objective(X, y, C=2.0)
    w = rng.standard_normal(d + 1) / math.sqrt(d) / (1 + offset)
    points = [objective.at(w, gram=True), objective.at(w, gram=True, exact=True)]
    X1 = np.column_stack([X.astype(LONG), np.ones(len(X), LONG)])
    _, slope, curvature = loss_of(LOSSES["logistic"], y.astype(LONG), X1 @ w.astype(LONG))
    ridge = np.append(np.ones(d), 0.0)
    gradient = 2 * X1.T @ slope + ridge * w
    hessian = 2 * (X1 * curvature[:, None]).T @ X1 + np.diag(ridge)
    root = np.sqrt(np.diag(hessian))
    errors = []
    for point in points:
        off = np.abs(point.gradient - gradient)
        error = point.error
        radius = objective.rounding.radius
        assert off[d] <= error.slopes + error.adding
        assert (
            np.linalg.norm(off[:d].astype(float))
            <= (error.slopes + error.adding) * radius + error.penalty
        )
        errors.append(float((np.abs(point.hessian - hessian) / np.outer(root, root)).max()))
        assert errors[-1] <= objective.rounding.gram(exact=point.exact)
    assert errors[1] < 1e-12
    assert (
        errors[0] > 1e-9
    )  # a Gram that is not exact is summed in float32, or this test shows nothing
    objective.engine.close()


def test_an_exact_hessian_of_float64_and_of_sparse_rows_is_the_usual_one():
    X, y = make_problem(500, 9, seed=3)
    w = np.random.default_rng(0).standard_normal(10)
    for rows in (X, sp.csr_matrix(X), sp.csr_matrix(X.astype(np.float32))):
        objective = whole_objective(rows, y)
        usual, exact = objective.at(w, gram=True), objective.at(w, gram=True, exact=True)
        assert usual.exact
        np.testing.assert_array_equal(usual.hessian, exact.hessian)
        objective.engine.close()


@pytest.mark.parametrize("storage", ["dense", "csr", "pattern"])
def test_a_survey_bounds_all_rows_and_columns(storage):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((3000, 6)) + 1e4) * np.logspace(-4, 4, 6)
    if storage != "dense":
        X = sp.csr_matrix(
            np.where(rng.random(X.shape) < 0.3, 1.0 if storage == "pattern" else X, 0.0)
        )
    objective = whole_objective(X, np.where(rng.random(3000) < 0.5, 1.0, -1.0))
    objective.bounds.survey()
    ball, columns = objective.rounding.ball, objective.rounding.columns
    dense = X.toarray() if sp.issparse(X) else X
    farthest = np.linalg.norm(dense - ball.centre, axis=1).max()
    np.testing.assert_allclose(ball.centre, dense.mean(axis=0))
    assert farthest <= ball.radius <= 1.5 * farthest
    assert (np.abs(dense).max(axis=0) <= columns).all()
    assert (columns <= 1.5 * np.abs(dense).max(axis=0) + 1e-8 * objective.rounding.radius).all()
    step = rng.standard_normal(7)
    assert np.abs(dense @ step[:6] + step[6]).max() <= ball.margins(step, 6)
    assert (np.abs(dense) @ np.abs(step[:6]) + abs(step[6])).max() <= objective.rounding.size(step)
    objective.engine.close()


def test_rows_that_are_nearly_one_are_in_their_ball():
    rng = np.random.default_rng(0)
    X = 1e6 + 1e-6 * rng.standard_normal((100, 4))  # powers of their distances underflow
    objective = whole_objective(X, np.where(rng.random(100) < 0.5, 1.0, -1.0))
    objective.bounds.survey()
    ball = objective.rounding.ball
    assert np.linalg.norm(X - ball.centre, axis=1).max() <= ball.radius <= 1e-2
    objective.engine.close()


def test_a_survey_serves_all_problems_of_the_rows_but_no_part_of_them():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 3)) + 100.0
    first = whole_objective(X, np.where(rng.random(4000) < 0.5, 1.0, -1.0))
    first.bounds.survey()
    again = Objective(first.engine, first.problem, first.loss, C=7.0, fit_intercept=True)
    again.bounds.survey()
    assert (first.passes, again.passes) == (2.0, 0.0)
    assert (again.rounding.columns == first.rounding.columns).all()
    assert again.rounding.ball.radius == first.rounding.ball.radius
    part = first.sample(0.1, seed=3)
    part.bounds.survey()
    assert first.passes == pytest.approx(2.2)
    assert (part.rounding.ball.centre != first.rounding.ball.centre).any()
    first.engine.close()


def test_a_survey_counts_its_passes():
    X, y = make_problem(1000, 4, seed=2)
    report = daskglm.fit(X + 1e5, y, solver="newton").report_
    assert report.passes >= report.n_iter + 3  # the first point, and two passes of the survey
    assert (
        daskglm.fit(X, y, solver="newton").report_.passes == report.n_iter + 1 or report.n_iter > 0
    )


def test_a_hessian_in_doubt_proves_nothing():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((50, 4))
    A[:, 3] = A[:, 2] + 1e-4 * A[:, 3]
    H, g = A.T @ A, rng.standard_normal(4)
    sure, doubtful = HessianFactor.of(H, 1e-16), HessianFactor.of(H, 1e-6)
    assert sure.proves
    assert not doubtful.proves
    assert doubtful.decrement(g) == math.inf
    assert doubtful.is_doubtful(1e-6)
    assert not sure.is_doubtful(1e-16)
    assert sure.decrement(g) ** 2 == pytest.approx(g @ np.linalg.solve(H, g), rel=1e-4)
    assert sure.root_trace**2 >= np.trace(np.linalg.inv(H))


@each_choice
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("d", [5, 80])
def test_an_exact_hessian_on_a_device(cupy, sparse, d):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((400, d)) + 30).astype(np.float32)
    y = np.where(rng.random(400) < 0.5, 1.0, -1.0)
    record = LOSSES["logistic"]
    rows = sp.csr_matrix(X * (rng.random(X.shape) < 0.5)) if sparse else X
    grams = []
    for device in ("cuda", "cpu"):
        from daskglm.worker.device_placement import DeviceConfig

        engine = Local([to_block(rows, y, place=Place(), classify=True)], 1, DeviceConfig(device))
        objective = Objective(
            engine,
            Problem(record.ref, 1.0),
            record,
            C=1.0,
            fit_intercept=True,
            intercept_radius=1.0,
        )
        point = objective.at(objective.xp.asarray(np.full(d + 1, 1e-3)), gram=True, exact=True)
        grams.append(to_host(point.hessian))
        engine.close()
    np.testing.assert_allclose(
        grams[0], grams[1], rtol=3e-7
    )  # a device keeps curvatures in the rows' dtype


def test_the_bounds_know_how_long_the_kernels_sum_in_the_precision_of_the_rows():
    assert rounding.MOST_SUMMED >= gram.ROWS


def test_the_bounds_know_how_long_a_devices_kernels_sum(cupy):
    from daskglm.kernels.cuda import dense

    assert rounding.DEVICE_NARROW == dense.NARROW
    assert rounding.DEVICE_TILE >= dense.GRAM_THREADS
    assert dense.GRAM_BYTES / np.dtype(np.float32).itemsize <= rounding.DEVICE_SUMMED


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_bound_by_the_hessian_holds_and_is_tight_near_the_optimum(C, intercept):
    X, y = make_problem(n=500, d=6)
    engine = Local([to_block(X, y, place=Place(), classify=True)], 1)
    loss = LOSSES["logistic"]
    whole = Objective(
        engine, Problem(loss.ref, 1.0), loss, C=C, fit_intercept=intercept, intercept_radius=1.0
    )
    best = daskglm.fit(X, y, C=C, fit_intercept=intercept, solver="newton", tol=1e-15)
    at = np.append(best.coef_.ravel(), best.intercept_)[: whole.size]
    least = whole.at(at).value
    rng = np.random.default_rng(1)
    finite = []
    for size in np.logspace(-6, 2, 200):
        point = whole.at(at + size * rng.standard_normal(whole.size) / np.sqrt(C), gram=True)
        assert point.excess >= (point.value - least) * (1 - 1e-6) - 1e-12 * least
        if np.isfinite(point.excess) and point.value > least * (1 + 1e-10):
            finite.append(point.excess / (point.value - least))
    assert len(finite) > 20
    assert np.median(finite) < 1.1


def test_the_bound_is_exact_for_least_squares_and_absent_where_curvature_jumps():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 4))
    H, g = A.T @ A, rng.standard_normal(4)
    factor = HessianFactor.of(H, 0.0)
    assert excess(factor.decrement(g), 0.0) == pytest.approx(
        0.5 * g @ np.linalg.solve(H, g), rel=1e-9
    )
    assert excess(factor.decrement(1e6 * g), 1.0) == np.inf
    assert excess(HessianFactor.of(np.zeros((4, 4)), 0.0).decrement(g), 0.0) == np.inf
    assert excess(HessianFactor.of(H * np.nan, 0.0).decrement(g), 0.0) == np.inf
    assert not np.isfinite(LOSSES["squared_hinge"].self_concordance)


@pytest.mark.parametrize("solver", ["auto", "newton", "tron", "lbfgs", "gd", "sdca"])
@pytest.mark.parametrize("target", [0.1, 1e6, np.float32(0.3)])
def test_an_objective_of_rounding_errors_counts_as_zero(solver, target):
    """The least objective of targets that are all the same is zero, which rounding hides."""
    X = np.random.default_rng(3).standard_normal((500, 7)).astype(np.float32)
    y = np.full(500, target)
    model = daskglm.fit(X, y, loss="squared", solver=solver, random_state=0)
    assert model.report_.converged
    assert model.report_.relative_gap == 0.0
    np.testing.assert_allclose(model.predict(X), y, rtol=1e-6)


def test_paths_of_targets_that_are_all_the_same():
    X = np.random.default_rng(4).standard_normal((500, 7))
    for model in daskglm.fit(X, np.full(500, 0.1), loss="squared", C=[0.1, 1.0, 10.0]):
        assert model.report_.converged
        assert model.report_.relative_gap == 0.0
        np.testing.assert_allclose(model.predict(X), 0.1, rtol=1e-9)


def test_a_small_objective_that_is_no_rounding_is_bounded():
    """Residuals of 1e-9 of the targets are eight orders above rounding: the gap is proved as ever."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((500, 7))
    y = 1.0 + 1e-9 * rng.standard_normal(500)
    report = daskglm.fit(X, y, loss="squared", tol=1e-6).report_
    assert report.converged
    assert 0.0 < report.relative_gap <= 1e-6
    assert report.objective == pytest.approx(0.5 * 500e-18, rel=0.2)


@pytest.mark.parametrize("scale", [1.0, 1e100])
def test_a_bound_far_out_is_the_value_without_a_warning(scale):
    rng = np.random.default_rng(0)
    X = scale * (3.0 + rng.random((60, 2)))
    objective = whole_objective(X, rng.poisson(2.0, 60).astype(float), "poisson")
    objective.bounds.survey()
    for margin in (350.0, 500.0, 700.0):
        point = objective.at(np.array([margin / (8.0 * scale)] * 2 + [0.0]), gram=True)
        assert math.isfinite(point.value)
        assert objective.bounds.of(point) == point.value
        assert not objective.bounds.nominal(point) < point.value
    objective.engine.close()


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_a_term_goes_through_the_additions_of_all_blocks_of_a_thread(storage):
    rng = np.random.default_rng(0)
    n, d, parts = 6000, 3, 12
    X, y = rng.normal(size=(n, d)), (rng.random(n) < 0.5).astype(int)
    rows = X if storage == "dense" else sp.csr_matrix(X)
    cuts = [slice(k * n // parts, (k + 1) * n // parts) for k in range(parts)]
    blocks = [to_block(rows[cut], y[cut], place=Place(), classify=True) for cut in cuts]
    engine = Local(blocks, threads=1)
    loss = LOSSES["logistic"]
    objective = Objective(engine, Problem(loss.ref, 1), loss, C=1.0, fit_intercept=True)
    found = objective.rounding
    assert found.in_turn >= n
    if storage == "csr":
        assert found.terms >= n
        assert found.gram(exact=True) >= n * 2.0**-53
    engine.close()
