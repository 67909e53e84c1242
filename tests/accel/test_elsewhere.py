"""Models in the processes that joblib starts, and the names of a notebook."""

import pickle
import sys
import types

import numpy as np
import pytest
from joblib import Parallel, delayed
from joblib.externals.loky.backend import reduction
from sklearn import linear_model
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from daskglm import accel
from daskglm.accel import elsewhere

THEIRS = linear_model.Ridge
X = np.random.default_rng(0).normal(size=(60, 3))
y = X @ [1.0, 2.0, 0.0]


@pytest.fixture(autouse=True)
def installed():
    accel.install()
    yield
    accel.uninstall()


def sent(model):
    """The model as it arrives by loky: in this process, whose classes are known."""
    return reduction.loads(reduction.dumps(model))


def test_what_is_sent_is_a_proxy_beside_scikit_learns_name():
    model = sent(linear_model.Ridge(alpha=3.0))
    accel.uninstall()  # as in a process of joblib's
    assert type(model) is not THEIRS
    assert type(model) is elsewhere._proxy("Ridge")
    assert model.get_params() == THEIRS(alpha=3.0).get_params()
    assert model.fit(X, y).n_features_in_ == 3
    back = pickle.loads(pickle.dumps(model))
    assert type(back) is THEIRS
    np.testing.assert_array_equal(back.coef_, model.coef_)


def test_attributes_travel_and_fits_are_ours(monkeypatch):
    pipe = sent(make_pipeline(StandardScaler(), linear_model.Ridge()).fit(X, y))
    np.testing.assert_allclose(pipe.predict(X), y, atol=0.5)
    monkeypatch.setattr(THEIRS, "fit", None)  # which nothing calls
    pipe.fit(X, y)


def test_after_uninstall_and_in_plain_pickles_all_is_scikit_learns():
    model = linear_model.Ridge()
    accel.uninstall()
    assert type(sent(model)) is THEIRS
    assert type(pickle.loads(pickle.dumps(model))) is THEIRS
    assert type(sent(THEIRS())) is THEIRS


def test_without_lokys_copy_all_else_is_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "joblib.externals.loky.backend", None)
    accel.install()
    assert linear_model.Ridge is not THEIRS


def test_processes_of_joblib_fit_with_our_solvers():
    def told(model):
        model.fit(X, y)
        name = __import__("sklearn.linear_model").linear_model.Ridge
        return type(model) is name, [each for each in type(model).__mro__ if each is name]

    (found,) = Parallel(n_jobs=2)([delayed(told)(linear_model.Ridge())])
    assert found == (False, [linear_model.Ridge])
    search = GridSearchCV(linear_model.Ridge(), {"alpha": [0.1, 1.0]}, cv=2, n_jobs=2).fit(X, y)
    assert type(search.best_estimator_) is linear_model.Ridge
    assert "Ridge: 1 taken" in accel.report()  # the last one, of all rows


def test_a_notebook_loads_and_unloads_it(monkeypatch):
    shells = pytest.importorskip("IPython.core.interactiveshell", reason="IPython is not installed")
    accel.uninstall()
    shell = shells.InteractiveShell()
    monkeypatch.setitem(sys.modules, "__main__", shell.user_module)
    shell.user_ns["Ridge"] = THEIRS
    shell.run_line_magic("load_ext", "daskglm.accel")
    assert shell.user_ns["Ridge"] is linear_model.Ridge is not THEIRS
    shell.run_line_magic("unload_ext", "daskglm.accel")
    assert shell.user_ns["Ridge"] is linear_model.Ridge is THEIRS


def test_names_of_the_program_that_runs_are_proxies(monkeypatch):
    program = types.ModuleType("__main__")
    program.Ridge, program.other = THEIRS, np
    monkeypatch.setitem(sys.modules, "__main__", program)
    accel.install()
    assert program.Ridge is linear_model.Ridge
    assert program.other is np
