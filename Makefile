# Every target sets up what it needs: `make demo`, `make test`. Only Python >= 3.11, git and make must be there.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
# where it is set, each process would compile all modules anew: half of the time to collect tests
unexport PYTHONDONTWRITEBYTECODE
.PHONY: setup warm-up demo wheel test test-slow test-all nightly test-lowest compatibility lint docs audit bench clean help

setup: $(VENV)/.done  ## make .venv from requirements.lock

# CuPy and CUDA's compiler, to compile the CUDA sources where there is no GPU; wheels of them exist for Linux
CUDA_LOCK := $(if $(filter Linux-x86_64,$(shell uname -s)-$(shell uname -m)),requirements-cuda.lock)

$(VENV)/.done: $(VENV)/.demo requirements-cuda.lock
	$(RUN) -m pip install --quiet --no-compile --disable-pip-version-check -r requirements.lock
	$(if $(CUDA_LOCK),$(RUN) -m pip install --quiet --no-compile --disable-pip-version-check --no-deps -r $(CUDA_LOCK))
	@touch $@

# what a user installs, and what the demo draws with: half a minute less than all that tests need
$(VENV)/.demo: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "daskglm needs Python 3.11 or newer, for example: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --no-compile --disable-pip-version-check --constraint requirements.lock -e '.[demo]'
	@touch $@

# what is compiled already is not compiled again
warm-up: setup  ## compile the kernels: about four minutes once, then 2 seconds
	$(RUN) -m daskglm warm-up

demo: $(VENV)/.demo  ## fit late flights (or DATA=path) on a local cluster and by scikit-learn: demo-output/index.html
	$(RUN) -m benchmarks.demo $(if $(DATA),--data $(DATA))

# two processes of one thread: more threads would wait for each other's turn on two processors. A process
# that has no test left takes some of the other one's, so that none waits for the longest file.
PYTEST := OMP_NUM_THREADS=1 $(RUN) -m pytest -n 2 --dist worksteal

test: warm-up  ## the default tests
	$(PYTEST)

test-slow: warm-up  ## those that take longer
	$(PYTEST) -m "slow and not nightly"

test-all: test test-slow  ## both

# thousands of hard problems, real sets, papers, launchers, browsers, wheels; then fits of all kinds with faults
nightly: docs  ## what takes hours: before a release, and once a night (as root: with sshd, SLURM, MPI and Chromium)
	deploy/tests/setup.sh || echo "tests of launchers and browsers will skip: deploy/tests/setup.sh failed" >&2
	$(PYTEST) -m nightly; tests=$$?; $(RUN) -m benchmarks.soak --minutes 10 && exit $$tests

compatibility: setup  ## scikit-learn's and statsmodels' own tests with our estimators, scikit-learn's under daskglm.accel, and those in DASK_ML=, GLUM= and CELER=folder; an hour
	nice $(RUN) -m tests.compatibility $(if $(DASK_ML),--dask-ml $(DASK_ML)) $(if $(GLUM),--glum $(GLUM)) $(if $(CELER),--celer $(CELER))

lint: setup  ## ruff, mypy, and the contracts on imports (pyproject.toml); size budgets are tests
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports --no-logo

# warnings are errors; `examples` run while the pages are built
docs: warm-up  ## the documentation, in docs/_build/html
	$(RUN) -m sphinx -W --keep-going -n -q -b html docs docs/_build/html

# kernels compiled for two levels of processors go into it; a wheel made from the sdist would lack them
wheel: setup  ## dist/: a wheel with compiled kernels for this Python, and a source distribution
	$(RUN) deploy/wheel/machine_code.py
	$(RUN) -m build --sdist --wheel --outdir dist

# -S: a release that the database does not know, or no database, is a failure and not a pass
audit: setup  ## offline checks of the locks, then pip-audit on them (wants a network)
	$(RUN) -m pytest -q tests/test_lock.py
	$(PYTHON) -m venv $(VENV)-audit
	$(VENV)-audit/bin/python -m pip install --quiet --no-compile --disable-pip-version-check pip-audit
	$(VENV)-audit/bin/pip-audit -S --no-deps --disable-pip -r requirements.lock -r requirements-cuda.lock -r requirements-deploy.lock

bench: setup  ## the first benchmark and its tables
	$(RUN) -m benchmarks run
	$(RUN) -m benchmarks report

test-lowest:  ## the default tests on the lowest supported versions (Python 3.11 to 3.12)
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --no-compile --disable-pip-version-check -r requirements-lowest.txt
	.venv-lowest/bin/python -m pip install --quiet --no-compile --disable-pip-version-check --no-deps -e .
	.venv-lowest/bin/python -m pytest -W default

clean:  ## remove what the targets made
	rm -rf .venv-lowest $(VENV)-audit $(VENV) demo-output docs/_build docs/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help:  ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*##/\t/'
