# `make run` shows the product, `make test` checks it, `make help` lists all commands.
SHELL := /bin/bash
PORT ?= 8000
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# Test processes for two cores; on more cores: make test PROCESSES=6. A third of `make test` is waiting for servers.
test: PROCESSES ?= 3
test-fast: PROCESSES ?= 2
# One BLAS thread per process: faster on small matrices, and bitwise reproducible.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
# Processes read the compiled tests of earlier ones.
unexport PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help run test test-fast check bench format lock clean

help:  ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# uv is faster; where it cannot be installed, pip installs the same locked and hashed list.
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

run: $(VENV)/.runtime  ## install, migrate, load the demo study and serve it (PORT=8000)
	@$(BIN)/python manage.py migrate --verbosity 0
	@$(BIN)/python manage.py demo
	@exec $(BIN)/python manage.py serve --port $(PORT)

test: $(VENV)/.dev  ## install and run every test, those marked both_databases also on PostgreSQL
	@$(BIN)/python -m pytest -p tests.postgres_plugin -m both_databases -n $(PROCESSES) --dist worksteal
	@$(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal

test-fast: $(VENV)/.dev  ## tests without browser, PostgreSQL and slow tests
	@$(BIN)/python -m pytest -m "not browser and not slow" -n $(PROCESSES) --dist worksteal

check: $(VENV)/.dev  ## style, types, templates, import layers, missing migrations
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/djlint --check --lint templates
	@$(BIN)/lint-imports
	@$(BIN)/python manage.py makemigrations --check --dry-run

format: $(VENV)/.dev  ## reformat Python and templates
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format --quiet .
	@$(BIN)/djlint --reformat --quiet templates

bench: $(VENV)/.dev  ## run every benchmark in its quick form and print JSON
	@$(BIN)/python -m benchmarks

.PHONY: paper
paper: $(VENV)/.dev  ## run the paper's experiments (DATA=DIR with ukpconvarg/ and sushi/; hours, a killed run continues)
	@$(BIN)/python -m benchmarks.paper $(if $(DATA),--data $(DATA)) $(PAPER_OPTIONS)

.PHONY: drills drills-short long-tests drill-kills load load-embedded soak sbom
drills: $(VENV)/.dev  ## fault drills on both databases: each once in full, then four seeds in short (an hour)
	@$(BIN)/python -m tests.drills.faults

drills-short: $(VENV)/.dev  ## every fault drill once in the short frame (15 minutes)
	@$(BIN)/python -m tests.drills.faults --short --seeds 1

long-tests: $(VENV)/.dev  ## the tests that have a long form, at full size on both databases (half an hour)
	@$(BIN)/python -m tests.drills
	@DRILLS=long $(BIN)/python -m pytest -p tests.postgres_plugin tests/drills tests/annotation/services/test_concurrency.py tests/modelling/exports/test_round_trips.py tests/modelling/web/api/test_fuzzing.py
	@DRILLS=long $(BIN)/python -m pytest tests/drills tests/annotation/services/test_concurrency.py tests/modelling/updater/test_bad_data.py tests/modelling/training/test_inputs.py tests/modelling/exports/test_round_trips.py tests/modelling/web/api/test_fuzzing.py

drill-kills: $(VENV)/.dev  ## check that 50,000 posts survive 50 kills of the server (half an hour)
	@$(BIN)/python -m tests.drills.scenarios.kills --posts 50000 --kills 50

load: $(VENV)/.dev  ## 500 workers join in two minutes on PostgreSQL and Redis (20 minutes; an idle machine)
	@$(BIN)/python -m benchmarks.server.burst --profile server

load-embedded: $(VENV)/.dev  ## 100 workers on SQLite, then judging alone, queries and fsyncs (20 minutes)
	@$(BIN)/python -m benchmarks.server.burst --profile embedded
	@$(BIN)/python -m benchmarks.server.judging_load
	@$(BIN)/python -m benchmarks.server.fsync

soak: $(VENV)/.dev  ## half an hour at 50 answers a second: memory, files and tables stay flat (MINUTES=30)
	@$(BIN)/python -m benchmarks.server.soak --minutes $(or $(MINUTES),30)

sbom: $(VENV)/.runtime  ## print the software bill of materials (CycloneDX)
	@$(BIN)/python deploy/sbom.py

lock: $(VENV)/.dev  ## pin the newest allowed versions with hashes
	@$(BIN)/uv pip compile -q --upgrade --generate-hashes --no-header --no-annotate --python-version 3.11 pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile -q --upgrade --generate-hashes --no-header --no-annotate --python-version 3.11 --extra dev -c requirements.lock pyproject.toml -o requirements-dev.lock

clean:  ## delete the virtual environment and the data of `make run`
	@rm -rf $(VENV) data
