# Two commands matter to a newcomer: `make run` and `make test`. `make help` lists the rest.
SHELL := /bin/bash
PORT ?= 8000
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# One BLAS thread a process: faster on small matrices, and bitwise reproducible.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help run test test-fast check bench format lock clean

help:  ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# uv is quicker where it can be had; plain pip does the same from the same locked, hashed list.
define install
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || python3 -m venv $(VENV)
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { echo "Concord needs Python 3.11; make PYTHON=/path/to/python3.11 $@"; exit 1; }
	@echo "Installing $(1) (a few minutes the first time) ..."
	@if $(BIN)/python -m pip install --quiet uv 2>/dev/null && $(BIN)/python -m uv pip install --quiet --python $(BIN)/python --require-hashes -r $(1) 2>/dev/null; \
	 then true; else $(BIN)/python -m pip install --quiet --require-hashes -r $(1); fi
	@touch $@
endef

$(VENV)/.runtime: requirements.lock
	$(call install,requirements.lock)

$(VENV)/.dev: requirements-dev.lock | $(VENV)/.runtime
	$(call install,requirements-dev.lock)

run: $(VENV)/.runtime  ## install, migrate, load the demo and serve it (PORT=8000)
	@$(BIN)/python manage.py migrate --verbosity 0
	@$(BIN)/python manage.py demo
	@exec $(BIN)/python manage.py serve --port $(PORT)

test: $(VENV)/.dev  ## install and pass every test, those that touch rows on both databases
	@$(BIN)/python -m pytest -p tests.on_postgres -m "database and not browser" -n 2 --dist worksteal
	@$(BIN)/python -m pytest -n 2 --dist worksteal

test-fast: $(VENV)/.dev  ## the part of the tests that needs no browser, PostgreSQL or long fit
	@$(BIN)/python -m pytest -m "not browser and not slow" -n 2 --dist worksteal

check: $(VENV)/.dev  ## style, types, templates, import walls, missing migrations
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/djlint --check --lint --quiet templates
	@$(BIN)/lint-imports
	@$(BIN)/python manage.py makemigrations --check --dry-run

format: $(VENV)/.dev  ## rewrite Python and templates in the house format
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format --quiet .
	@$(BIN)/djlint --reformat --quiet templates

bench: $(VENV)/.dev  ## every benchmark in its quick form, as JSON
	@$(BIN)/python -m benchmarks

.PHONY: drills drill-ledger load
drills: $(VENV)/.dev  ## faults and crowds in their full numbers, on both databases (half an hour)
	@$(BIN)/python -m tests.drills
	@DRILLS=long $(BIN)/python -m pytest -p tests.on_postgres tests/drills tests/annotation/test_concurrency.py tests/modelling/test_round_trips.py tests/modelling/api/test_fuzzing.py
	@DRILLS=long $(BIN)/python -m pytest tests/drills tests/annotation/test_concurrency.py tests/modelling/test_bad_data.py tests/modelling/test_accounting.py tests/modelling/test_round_trips.py tests/modelling/api/test_fuzzing.py tests/modelling/crowdgppl/test_refining.py

drill-ledger: $(VENV)/.dev  ## 50,000 posts, 50 times kill -9, and nothing lost (half an hour)
	@$(BIN)/python -m tests.drills.kills --posts 50000 --kills 50

load: $(VENV)/.dev  ## judging under load: times, errors, statements of one answer; and its fsyncs
	@$(BIN)/python -m benchmarks.judging_load
	@$(BIN)/python -m benchmarks.fsync

lock: $(VENV)/.dev  ## pin the newest allowed versions (hashes, no addresses)
	@$(BIN)/uv pip compile -q --upgrade --generate-hashes --no-header --no-annotate --python-version 3.11 pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile -q --upgrade --generate-hashes --no-header --no-annotate --python-version 3.11 --extra dev -c requirements.lock pyproject.toml -o requirements-dev.lock

clean:  ## forget the environment and the data of `make run`
	@rm -rf $(VENV) data
