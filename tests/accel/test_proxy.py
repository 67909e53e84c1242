"""Proxies behave as scikit-learn's classes do, whoever solves."""

import copy
import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn import linear_model, svm
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from daskglm import accel
from daskglm.accel.table import RECORDS

THEIRS = linear_model.LogisticRegression
X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [3.0, 1.0], [1.0, 3.0], [0.5, 0.2]])
y = np.array([0, 0, 1, 1, 1, 0])


@pytest.fixture(autouse=True)
def installed():
    accel.install()
    yield
    accel.uninstall()


def names(record):
    return {"linear_model": linear_model, "svm": svm}[record.folder], record.name


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_a_proxy_looks_as_the_class_that_it_stands_for(record):
    module, name = names(record)
    proxy = getattr(module, name)
    original = proxy.__mro__[1]
    assert proxy is not original
    for what in ("__name__", "__qualname__", "__module__", "__doc__"):
        assert getattr(proxy, what) == getattr(original, what)
    assert inspect.signature(proxy) == inspect.signature(original)
    assert inspect.signature(proxy.fit) == inspect.signature(original.fit)
    model, theirs = proxy(), original()
    assert repr(model) == repr(theirs)
    assert model.get_params() == theirs.get_params()
    assert isinstance(model, original)
    assert isinstance(theirs, proxy)
    assert issubclass(original, proxy)
    assert type(clone(model)) is proxy
    assert getattr(sys.modules[proxy.__module__], name) is proxy
    accel.uninstall()
    assert getattr(module, name) is original
    assert getattr(sys.modules[original.__module__], name) is original


def test_other_classes_are_no_instances():
    class Mine(linear_model.LogisticRegression):
        pass

    assert isinstance(Mine(), linear_model.LogisticRegression)
    assert not isinstance(linear_model.LogisticRegression(), Mine)
    assert not isinstance(THEIRS(), Mine)
    assert not isinstance(linear_model.Ridge(), linear_model.LogisticRegression)
    assert Mine().fit(X, y).predict(X).shape == (6,)
    assert "1 fits taken" in accel.report()


def test_a_subclass_that_changes_the_loss_is_scikit_learns():
    class Mine(linear_model.PoissonRegressor):
        def __init__(self, alpha):
            super().__init__(alpha=alpha)

        def _get_loss(self, *args, **given):
            return linear_model.TweedieRegressor(power=1.5)._get_loss(*args, **given)

    model = Mine(0.5).fit(X, y)
    accel.uninstall()
    theirs = linear_model.TweedieRegressor(power=1.5, alpha=0.5).fit(X, y)
    np.testing.assert_allclose(model.coef_, theirs.coef_)


def test_classes_that_others_of_scikit_learn_use_are_proxies_and_names_come_back():
    from sklearn.linear_model import _logistic

    assert linear_model.LogisticRegression is _logistic.LogisticRegression is not THEIRS
    accel.install()
    assert linear_model.LogisticRegression.__mro__[1] is THEIRS
    accel.uninstall()
    accel.uninstall()
    assert linear_model.LogisticRegression is THEIRS


def test_models_are_pickled_as_scikit_learns(tmp_path):
    model = linear_model.LogisticRegression(C=2.0).fit(X, y)
    same = pickle.loads(pickle.dumps(model))
    assert type(same) is type(model) is type(copy.deepcopy(model))
    path = tmp_path / "model.pickle"
    path.write_bytes(pickle.dumps(make_pipeline(StandardScaler(), model)))
    program = (
        "import pickle, sys; model = pickle.load(open(sys.argv[1], 'rb'))[-1];"
        "from sklearn.linear_model import LogisticRegression;"
        "assert type(model) is LogisticRegression and len(type(model).__mro__) < 12;"
        "assert not [name for name in sys.modules if name.startswith('daskglm')];"
        "print(model.predict([[3.0, 1.0]]), model.coef_.tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"[1] {model.coef_.tolist()}"
    accel.uninstall()
    plain = pickle.loads(pickle.dumps(model))
    assert type(plain) is THEIRS
    np.testing.assert_array_equal(plain.coef_, model.coef_)


def test_searches_and_pipelines_are_answered():
    pipe = make_pipeline(StandardScaler(), linear_model.LogisticRegression())
    search = GridSearchCV(pipe, {"logisticregression__C": [0.1, 1.0]}, cv=3).fit(X, y)
    assert search.predict(X).shape == (6,)
    assert "7 fits taken, 0 fallen back" in accel.report()


def test_models_fit_as_scikit_learn_does_after_uninstall():
    model = linear_model.Ridge()
    accel.uninstall()
    model.fit(X, y)
    assert accel.report() == "daskglm.accel: no fit was called"


def test_what_scikit_learn_calls_inside_its_own_fit_is_its_own():
    linear_model.LassoCV(alphas=[0.1], max_iter=500).fit(X, y)
    assert "LassoCV: 0 taken, 1 fallen back" in accel.report()
    assert "Lasso:" not in accel.report()
