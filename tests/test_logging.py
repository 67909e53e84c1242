"""A program's logging is its own: schedulers such as Airflow and Prefect send what is logged, and printed, to their records."""

import subprocess
import sys

import pytest

SETTINGS = """
import logging, signal, sys, warnings

def settings():
    ours = [logging.getLogger(name) for name in ("", "daskglm", "py.warnings")]
    return (
        [(list(each.handlers), each.level, each.propagate, each.disabled) for each in ours],
        logging.raiseExceptions, logging.lastResort, logging.root.manager.disable,
        logging.getLoggerClass(), logging.getLogRecordFactory(), warnings.showwarning,
        list(warnings.filters), sys.stdout, sys.stderr, sys.excepthook,
        [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)],
    )

before = settings()
"""
FITS = """
import dask.array as da, numpy as np, sklearn
import daskglm
imported = settings()

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 3))
y = X[:, 0] + rng.normal(size=300) > 0
for rows, labels in ((X, y), (da.from_array(X, chunks=100), da.from_array(y, chunks=100))):
    model = daskglm.LogisticRegression(C=np.inf).fit(rows, labels)
    np.asarray(model.predict_proba(rows))
    model.score(rows, labels)
    model.inference(rows, labels).summary()
daskglm.regularization_path(X, y)
"""


def outputs(code):
    """What a new process prints and logs, but that kernels are compiled, where they are not yet."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    errors = [line for line in done.stderr.splitlines() if "compiling kernels" not in line]
    return done.stdout, errors


def test_imports_and_fits_print_nothing_and_leave_logging_alone():
    # scikit-learn and dask set filters of warnings when they are imported
    same = "assert settings()[:7] == imported[:7] == before[:7], (before, imported, settings())\n"
    rest = "assert settings()[8:] == imported[8:] == before[8:], (before, imported, settings())\n"
    filters = "assert settings()[7] == imported[7], (imported, settings())\n"
    assert outputs(SETTINGS + FITS + same + rest + filters) == ("", [])


def test_what_a_fit_warns_of_goes_through_warnings():
    fit = "daskglm.LogisticRegression(solver='lbfgs', max_iter=1).fit(X, y)\n"
    filtered = "warnings.simplefilter('ignore')\n"
    printed, errors = outputs(SETTINGS + FITS + fit + filtered + fit)
    assert printed == ""
    assert "ConvergenceWarning: lbfgs stopped" in errors[0]
    assert len([line for line in errors if "Warning" in line]) == 1


def test_a_program_that_logs_gets_records_of_one_logger():
    """At the level it asks for, by its own handler, once."""
    program = """
logging.basicConfig(stream=sys.stdout, format="%(name)s %(levelname)s")
logging.getLogger("daskglm").setLevel(logging.INFO)
daskglm.LogisticRegression().fit(X, y)
"""
    printed, errors = outputs(SETTINGS + FITS + program)
    assert set(printed.splitlines()) == {"daskglm INFO"}
    assert errors == []


@pytest.mark.parametrize("stream", ["None", "Told()"])
def test_a_fit_needs_no_standard_streams(stream):
    """Nor what they can beside writing: Airflow's log, a service of Windows has none at all."""
    printed, errors = outputs(f"""
import sys

class Told:
    def write(self, text):
        kept.append(text)

    def flush(self):
        pass

kept = []
real, sys.stdout, sys.stderr = sys.stdout, {stream}, {stream}
{SETTINGS}{FITS}
with warnings.catch_warnings(record=True):  # Python's own hook writes them to standard error
    daskglm.LogisticRegression(solver='lbfgs', max_iter=1).fit(X, y)
try:
    daskglm.LogisticRegression().fit(X, y, sample_weight=np.zeros(300))
except ValueError as error:
    print(type(error).__name__, [each for each in kept if "compil" not in each], file=real)
""")
    assert printed == "ValueError []\n"
    assert errors == []


def test_loggers_that_a_program_disables_stay_so_and_come_back_by_name():
    """`disable_existing_loggers` is the default of `dictConfig`: Airflow and Django call it late."""
    program = """
import logging.config
plain = {"class": "logging.StreamHandler", "stream": "ext://sys.stdout", "formatter": "line"}
line = {"line": {"format": "%(name)s %(levelname)s"}}
logging.config.dictConfig({"version": 1, "handlers": {"out": plain}, "formatters": line,
                           "root": {"handlers": ["out"], "level": "INFO"}})
daskglm.LogisticRegression().fit(X, y)
print("disabled")
logging.config.dictConfig({"version": 1, "handlers": {"out": plain}, "formatters": line,
                           "loggers": {"daskglm": {"handlers": ["out"], "level": "INFO"}}})
daskglm.LogisticRegression().fit(X, y)
"""
    printed, errors = outputs(SETTINGS + FITS + program)
    before, after = printed.split("disabled\n")
    assert before == ""
    assert set(after.splitlines()) == {"daskglm INFO"}
    assert errors == []
