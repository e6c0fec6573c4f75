# Two commands on a fresh machine with Python 3.11+: `make run` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --no-deps
SEEDS ?= 5000
# The first of them.
FIRST ?= 0
# What the chaos program does; it prints the seed of a run that fails.
SEED ?= 7
# How many tests run at the same time: more than two cores, because most of them wait for other processes.
PARALLEL ?= 5
CODE := src tests examples bench soak tools
# Where commands in this folder look for a server without being told.
DATABASE ?= interlock.db
# What `make run` is given beside the app; examples/policy.yaml can be added.
FILES ?= examples/timetable.yaml

.PHONY: dashboard run test quick check lint types unit bench soak clean

# What Interlock needs to run: the packages of the lock that requirements-run.txt names.
$(VENV)/run: requirements.lock requirements-run.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	awk 'NR == FNR { wanted[$$1]; next } /^[a-z]/ { split($$1, name, "=="); keep = name[1] in wanted } keep' requirements-run.txt requirements.lock > $(VENV)/run.lock
	$(INSTALL) --no-compile --require-hashes -r $(VENV)/run.lock
	$(INSTALL) --no-build-isolation -e .
	touch $@

# The tools of development besides.
$(VENV)/ready: $(VENV)/run
	$(INSTALL) --no-compile --require-hashes -r requirements.lock
	$(BIN)/python -m compileall -q -j 0 -x '/(mypy|mypyc|pip|pygments|setuptools|sqlalchemy)/' $(VENV)/lib
	touch $@

run: $(VENV)/run
	$(BIN)/interlock up -A examples.stream:app $(FILES) --db $(DATABASE) --submit demo.stream --drain 1s

# Types are checked while tests wait; a fault of format is told before either begins.
test: lint
	$(MAKE) --no-print-directory -j 2 types unit

# Only for changes of dashboard/: the built files are committed. npm is told to keep addresses out of the lock file.
dashboard: $(VENV)/run
	PYTHONPATH=. $(BIN)/python -m tools.dashboard_types
	cd dashboard && npm ci --ignore-scripts && npm run check && npm run build

# While you work, in less than a minute: format, lint, types, and the tests of the pure parts.
quick: lint
	$(BIN)/mypy
	$(BIN)/pytest -n auto tests/core tests/supervision/test_restart_table.py tests/supervision/test_spec.py

check: lint types

lint: $(VENV)/ready
	$(BIN)/ruff format --check --quiet $(CODE)
	$(BIN)/ruff check --quiet $(CODE)

types: $(VENV)/ready
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# Hundreds of processes are started by the tests, and none of them is to compile the sources for itself, also where
# PYTHONDONTWRITEBYTECODE is set.
# Tests that are marked as depending on the speed of the machine get one more try, alone. Both are printed. If any other test has
# failed, there is no second try (tests/second_try.py).
unit: $(VENV)/ready
	$(BIN)/python -m compileall -q src tests bench soak tools
	$(BIN)/pytest --processes $(PARALLEL) --cache-clear || $(BIN)/pytest --last-failed --last-failed-no-failures none --second-try

bench: $(VENV)/ready
	$(BIN)/python -m bench --output bench.json

soak: $(VENV)/ready
	$(BIN)/pytest -n auto -m hypothesis --hypothesis-profile random
	SOAK=1 $(BIN)/pytest -n auto tests/api/test_schemathesis.py tests/simulation/test_seeds.py tests/cluster/test_rolling.py
	$(BIN)/python -m soak.zones
	$(BIN)/python -m soak.seeds --seeds $(SEEDS) --first $(FIRST)
	$(BIN)/python -m tests.chaos --seconds 600 --seed $(SEED)
	$(BIN)/python -m tests.chaos --cluster --seconds 300 --seed $(SEED)

clean:
	rm -rf $(VENV) $(DATABASE) $(DATABASE)-* $(DATABASE).* tour bench.json build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
