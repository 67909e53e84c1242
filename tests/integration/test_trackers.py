"""MLflow's autologging, skops and Optuna with our estimators, where these packages are installed."""

import numpy as np
import pytest
from sklearn import linear_model
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import daskglm
from daskglm import accel

# these packages warn of each other
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
X, y = load_breast_cancer(return_X_y=True)


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    """MLflow with records of its own in a folder of the test."""
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    pytest.importorskip("mlflow.sklearn", reason="mlflow has no flavour for scikit-learn here")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "records").as_uri())
    yield mlflow
    mlflow.sklearn.autolog(disable=True)


def logged(mlflow, model):
    """Parameters and metrics that autologging keeps of a fit."""
    mlflow.sklearn.autolog(log_models=False, log_datasets=False, silent=True)
    with mlflow.start_run() as run:
        model.fit(X, y)
    data = mlflow.get_run(run.info.run_id).data
    return data.params, data.metrics


def test_mlflow_logs_pipelines_and_searches_of_ours(mlflow):
    pipe = make_pipeline(StandardScaler(), daskglm.LogisticRegression(C=0.5))
    params, metrics = logged(mlflow, pipe)
    assert params["logisticregression__C"] == "0.5"
    assert metrics["training_score"] == pytest.approx(pipe.score(X, y))
    search = GridSearchCV(pipe, {"logisticregression__C": [0.1, 1.0]}, cv=2)
    params, metrics = logged(mlflow, search)
    assert params["best_logisticregression__C"] == str(search.best_params_["logisticregression__C"])
    assert metrics["best_cv_score"] == pytest.approx(search.best_score_)


def test_mlflow_logs_fits_under_accel(mlflow):
    accel.install()
    try:
        model = linear_model.LogisticRegression(C=0.5)
        params, metrics = logged(mlflow, model)
        assert "LogisticRegression: 1 taken" in accel.report()
    finally:
        mlflow.sklearn.autolog(disable=True)
        accel.uninstall()
    assert params["C"] == "0.5"
    assert metrics["training_score"] == pytest.approx(model.score(X, y))


def test_mlflow_saves_and_loads_a_model(mlflow):
    model = daskglm.LogisticRegression().fit(X, y)
    mlflow.sklearn.save_model(model, "saved", serialization_format="cloudpickle")
    same = mlflow.sklearn.load_model("saved")
    np.testing.assert_array_equal(same.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    "model",
    [daskglm.LogisticRegression(), daskglm.HuberRegressor(), daskglm.Lasso(alpha=0.01)],
    ids=lambda model: type(model).__name__,
)
def test_skops_keeps_models_of_types_that_are_ours(model):
    io = pytest.importorskip("skops.io", reason="skops is not installed")
    model.fit(X, y)
    kept = io.dumps(model)
    types = io.get_untrusted_types(data=kept)
    assert types
    assert all(name.startswith("daskglm.") for name in types)
    same = io.loads(kept, trusted=types)
    np.testing.assert_array_equal(same.predict(X), model.predict(X))
    assert same.report_.relative_gap == model.report_.relative_gap


def test_optuna_prunes_by_the_gap_of_a_fit_that_runs():
    optuna = pytest.importorskip("optuna", reason="optuna is not installed")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    rows = StandardScaler().fit_transform(X)
    converged = {}

    def objective(trial):
        C = trial.suggest_float("C", 1e-3, 1e3, log=True)

        def gap_told(iteration):
            trial.report(iteration["relative_gap"], iteration["iteration"])
            return trial.should_prune()

        model = daskglm.fit(rows, y, C=C, solver="lbfgs", tol=1e-10, callback=gap_told)
        converged[trial.number] = model.report_.converged
        if trial.should_prune():
            raise optuna.TrialPruned
        return model.score(rows, y)

    # a gap above 1e-2 after 8 points is given up: a small penalty is slow for this solver
    pruner = optuna.pruners.ThresholdPruner(upper=1e-2, n_warmup_steps=8)
    study = optuna.create_study(direction="maximize", pruner=pruner)
    study.enqueue_trial({"C": 1e-3})
    study.enqueue_trial({"C": 1e3})
    study.optimize(objective, n_trials=2)
    done, pruned = study.trials
    assert done.state == optuna.trial.TrialState.COMPLETE
    assert pruned.state == optuna.trial.TrialState.PRUNED
    assert converged == {0: True, 1: False}
    assert max(pruned.intermediate_values) == 8
