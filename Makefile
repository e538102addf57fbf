# Winnow from a clone: `make` lists what there is. It needs Python 3.11 to 3.13 and make; the rest comes from
# requirements.lock, by hash. Everything is written inside the clone, package caches excepted.

# ------------------------------------------------------------------------------------------------------- variables

# The Python that the environment is made from; the first suitable one when left out.
PYTHON ?=
# Arguments for pytest in `make test`, such as ARGS="tests/unit -k tombstone", and for `make bench`, `make parity` and `make kafka`.
ARGS ?=
# The command of `make airflow`, such as CMD="dags list".
CMD ?=
# The size of `make bench`: small, 12m or large. Its arguments are ARGS; see `python -m bench run --help`.
SIZE ?= 12m
# Mutants for `make mutants`; all when left out.
NAMES ?=
# What `make test-long` runs: everything that Hypothesis drives, ten processes on one topic for three minutes,
# backfills of ten days in every direction, a database whose followers are all killed five times, keyed tables by every
# way of Spark, an hour with a cluster of three brokers that fail, and MirrorMaker 2.
LONG ?= tests/unit/test_eligibility.py tests/unit/test_engine_strategies.py tests/unit/test_semantics.py \
  tests/unit/test_tombstone_waits.py tests/unit/test_late_versions.py \
  tests/unit/test_engine_ranges.py tests/unit/test_engine_removal.py \
  tests/integration/test_damaged_metadata.py tests/integration/test_late_arrivals.py \
  tests/integration/test_state_machine.py tests/integration/test_undo_machine.py tests/integration/test_erase_machine.py \
  tests/integration/test_latest_table.py \
  tests/faults/test_concurrent_processes.py tests/faults/test_recorded_paths.py \
  tests/faults/test_distributed_ingest_killed.py tests/faults/test_recovery_killed.py \
  tests/faults/test_every_command_killed.py tests/faults/spark_command_killed.py tests/airflow/test_backfill.py \
  tests/faults/test_backup_killed.py tests/faults/test_backup_under_load.py \
  tests/kafka/test_database_to_rows.py tests/kafka/test_ingest_killed.py tests/kafka/test_restore_killed.py \
  tests/kafka/test_three_brokers.py tests/kafka/live_cluster.py tests/bench/test_keyed_tables.py \
  tests/kafka/real_mirror.py
# Rounds of `make soak`; 1,000 when left out.
ROUNDS ?=
# What `make simulate` runs: so many histories, of these steps; an hour, of all, when left out.
HISTORIES ?=
ONLY ?=
# What `make parity` does: full, which writes docs/parity-certificate.md, or short.
PROFILE ?= full
# The seed of `make test-long` and `make parity`; a new one when left out.
SEED ?=
# For `make compose-check` and the tests of deploy/helm.
GO ?= $(firstword $(shell command -v go) /usr/local/go/bin/go)
# Where the demo, the embedded services and Airflow keep their data.
WINNOW_HOME ?= $(CURDIR)/.winnow

# What the image of the Dockerfile has: what runs. Its lock is requirements-image.lock, with the versions of the other one.
IMAGE_EXTRAS := airflow kafka msk hdfs s3 schemas lineage slack email

# Resolves and installs the lock. Not in the lock itself, since it comes first.
UV_VERSION := 0.13.9
VENV := $(CURDIR)/.venv
BIN := .venv/bin
# Its time is that of the last complete installation.
INSTALLED := .venv/.installed
# The linter of the page's JavaScript and CSS, as one binary per platform; package-lock.json has their hashes.
BIOME := node_modules/@biomejs/cli-*/biome
# Its time is that of the last complete installation.
BIOME_INSTALLED := node_modules/.installed
# Folders with Python in them; a folder that has none yet is left out.
CODE := $(foreach folder,winnow oracle demo jobs dags plugins scripts broker bench parity simulation tests,$(if $(shell find $(folder) -name '*.py' 2>/dev/null),$(folder)))

# spark-submit, airflow and python3 are the environment's, for recipes and for what they start.
export PATH := $(VENV)/bin:$(PATH)
export VIRTUAL_ENV := $(VENV)
export PYSPARK_PYTHON := $(VENV)/bin/python
export PYSPARK_DRIVER_PYTHON := $(VENV)/bin/python
export WINNOW_HOME
export SEED
# Airflow makes its home wherever this says as soon as it is imported.
export AIRFLOW_HOME := $(WINNOW_HOME)/airflow
# What would lead Python, uv or Spark out of the environment again.
unexport PYTHONHOME
unexport PYTHONPATH
unexport SPARK_HOME
unexport UV_PYTHON
# Images set it; then every process would compile what it imports anew, since the last change of a file.
unexport PYTHONDONTWRITEBYTECODE
unexport UV_SYSTEM_PYTHON

.DEFAULT_GOAL := help
.PHONY: help setup demo ui airflow kafka bench bench-curves bench-archives bench-kafka check dist test test-changed test-long soak parity simulate cluster-test compose-check matrix mutants docs site lint lint-types lint-links lint-page format lock clean clean-data
.DELETE_ON_ERROR:

# ------------------------------------------------------------------------------------------------------------ help

help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Look at it

demo: setup ## a topic's old values disappear before your eyes
	@$(BIN)/python -m demo

ui: setup ## Airflow with Winnow's DAGs and its page, on this machine
	@$(BIN)/python -m winnow.embedded.airflow_home ui

airflow: setup ## one of Airflow's own commands in it: CMD="dags list"
	@$(BIN)/winnow airflow $(CMD)

kafka: setup ## a Kafka broker on this machine, to try things with; ARGS="--port 9093 FOLDER"; Ctrl-C ends it
	@$(BIN)/python -m broker.kafka_broker $(ARGS)

bench: setup ## Winnow beside Spark, DuckDB, PyIceberg; SIZE=small, 12m or large; ARGS="--only winnow,duckdb" and more
	@$(BIN)/python -m bench run $(SIZE) $(ARGS)

bench-curves: setup ## how the cost grows with records, keys, partitions and dirty share
	@$(BIN)/python -m bench curves $(ARGS)

bench-archives: setup ## how archives of sinks go in, beside a plain Spark job; SIZE=small for 100,000 records
	@$(BIN)/python -m bench archives $(SIZE) $(ARGS)

bench-kafka: setup ## a Kafka topic in, beside Spark's own copy; the broker's cleaner beside Winnow; SIZE=small for 200,000 records
	@$(BIN)/python -m bench kafka $(SIZE) $(ARGS)

##@ Work on it

setup: $(INSTALLED) ## the environment in .venv, from requirements.lock; a second call does nothing
	@:

check: lint ## lint, then what needs no service: unit, contract, catalogue
	@$(BIN)/python -m tests.groups unit contract catalogue

test: $(if $(strip $(ARGS)),setup,lint) ## lint, then every test; with ARGS="tests/unit -k name" those alone
	@$(BIN)/python -m $(if $(strip $(ARGS)),pytest -q --durations=15 $(ARGS),tests.groups)

test-changed: setup ## the tests nearest to what changed since SINCE=COMMIT (default: HEAD), in a minute or two; FILES=20 at most
	@$(BIN)/python -m tests.changed $(if $(SINCE),--since $(SINCE)) $(if $(FILES),--files $(FILES))

test-long: setup ## the properties and the state machine with 2,000 new examples each; SEED=N for those of that run
	@seed=$${SEED:-$$(date +%Y%m%d%H%M%S)} && echo "Again with these examples: make test-long SEED=$$seed" && \
	  HYPOTHESIS_PROFILE=long CROWD_SEED=$$seed CROWD_SECONDS=180 BACKFILL_DAYS=10 DATABASE_ROUNDS=5 RECOVERY_POINTS=1000 COMMAND_POINTS=28 SPARK_POINTS=60 BACKUP_POINTS=1000 BACKUP_SECONDS=60 BACKUP_RESTORES=20 LIVE_SECONDS=$${LIVE_SECONDS:-3600} $(BIN)/python -m pytest -q --timeout=0 --hypothesis-seed=$$seed $(LONG)

soak: setup ## 1,000 rounds of ingest, compaction, failure and sweep: nothing grows but what must; ROUNDS=150 for fewer
	@$(BIN)/python -W ignore -m tests.soak $(ROUNDS)

parity: setup ## some 550 logs cleaned by real Kafka brokers and by Winnow, compared; SEED=N again, PROFILE=short for a minute
	@$(BIN)/python -m parity --profile $(PROFILE) $(if $(SEED),--seed $(SEED)) $(if $(filter full,$(PROFILE)),--page docs/parity-certificate.md) $(ARGS)

simulate: setup ## histories of a simulated world for an hour; SEED=N, HISTORIES=100, ONLY=compact,sweep
	@PYTHONHASHSEED=0 $(BIN)/python -W ignore -m simulation --seed $${SEED:-$$(date +%Y%m%d)} $(if $(HISTORIES),--histories $(HISTORIES),--seconds 3600) $(if $(ONLY),--only $(ONLY)) $(ARGS)

cluster-test: setup ## real clusters on this machine: docker-compose.yml with S3 and Spark standalone; YARN and HDFS; a REST catalog; the Helm chart
	@REAL_CLUSTERS=1 $(BIN)/python -m pytest -q --durations=5 tests/cluster

matrix: setup ## the wheel with other versions of Python, Airflow and Spark, from the registry; writes docs/versions.md
	@$(BIN)/python -m tests.matrix $(ARGS)

compose-check: ## docker-compose.yml read by compose's own parser, of the Go module proxy; needs Go
	@cd scripts/compose-check && $(GO) run . "$(CURDIR)/docker-compose.yml" kafka

mutants: setup ## break the rules one by one; the named test must notice; NAMES="..." for some
	@$(BIN)/python -m tests.mutants $(NAMES)

docs: setup ## write the generated pages of docs/ anew
	@$(BIN)/python -m scripts.docs_site.configuration_page > docs/configuration.md
	@$(BIN)/python -m scripts.docs_site.archives_page > docs/archives.md
	@$(BIN)/python -m scripts.docs_site.kafka_clients_page > docs/kafka-clients.md
	@$(BIN)/python -m tests.catalogue.parity > docs/kafka-parity.md
	@$(BIN)/python -m scripts.docs_site.drawings
	@$(BIN)/python -m bench.cost_page > docs/cost.md

site: setup ## the documentation as a site in site/, without a network; look at it with `python -m http.server --directory site`
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "site/index.html"

lint: setup ## ruff, mypy, the import contracts, links in docstrings, and biome for the page; changes nothing
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/ruff format --check --quiet $(CODE) || { echo "Files above are not formatted: make format"; exit 1; }
	@$(MAKE) --no-print-directory lint-types
	@PYTHONPATH=plugins $(BIN)/lint-imports --no-logo
	@$(MAKE) --no-print-directory lint-links
	@$(MAKE) --no-print-directory lint-page

# Apart, because commit hooks want them alone (.pre-commit-config.yaml) and the list of folders stands here.
lint-types: setup
	@$(BIN)/mypy $(CODE)

lint-links: setup
	@$(BIN)/python -m scripts.docstring_links $(CODE)

# Everything else can be checked without npm, without a registry, and where biome has no build for the platform: then this says so and
# goes on. What biome finds always fails.
lint-page:
	@if ! command -v npm > /dev/null; then echo "The page's JavaScript and CSS were not checked: npm is not installed."; \
	elif ! $(MAKE) --no-print-directory $(BIOME_INSTALLED) > /dev/null 2>&1; then \
	  echo "The page's JavaScript and CSS were not checked: biome could not be installed. The cause: make $(BIOME_INSTALLED)"; \
	else $(BIOME) check --error-on-warnings --max-diagnostics=100; fi

$(BIOME_INSTALLED): package.json package-lock.json .npmrc
	@npm ci --no-audit --no-fund --prefer-offline --fetch-retries=1 --fetch-timeout=60000 --loglevel=error
	@$(BIOME) --version > /dev/null
	@touch $@

format: setup ## format, and fix what ruff and biome can fix
	@$(BIN)/ruff check --fix $(CODE)
	@$(BIN)/ruff format $(CODE)
	@if command -v npm > /dev/null; then $(MAKE) --no-print-directory $(BIOME_INSTALLED) && $(BIOME) check --write; fi

dist: setup ## wheel and sdist in dist/, built twice and compared, with a bill of materials of the lock
	@$(BIN)/python -m scripts.build_release

lock: $(BIN)/uv ## write both locks anew from pyproject.toml, keeping versions where it can
	@$(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes \
	  --no-annotate --no-header --quiet --output-file requirements.lock
	@$(BIN)/uv pip compile pyproject.toml $(IMAGE_EXTRAS:%=--extra %) --universal --python-version 3.12 --generate-hashes \
	  --constraint requirements.lock --no-annotate --no-header --quiet --output-file requirements-image.lock

##@ Leave it

clean: ## remove the environment and the caches; data in .winnow stays
	@rm -rf .venv node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist site
	@find winnow oracle demo jobs dags plugins broker bench parity simulation tests scripts -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

clean-data: ## remove .winnow: the topics, tables and runs of this clone
	@rm -rf .winnow

# ----------------------------------------------------------------------------------------------------- environment

$(BIN)/uv:
	@python=$$(scripts/find-python $(PYTHON)) && echo "Making .venv with $$("$$python" --version)" && "$$python" -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

# Two Sparks in one folder install without a complaint, so the last line looks for them.
$(INSTALLED): requirements.lock pyproject.toml | $(BIN)/uv
	@echo "Installing requirements.lock into .venv"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode --require-hashes -r requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@$(BIN)/uv pip check --python $(BIN)/python
	@$(BIN)/python -c 'from winnow.embedded.java import check_spark_install; check_spark_install()'
	@$(BIN)/python -m compileall -q -j 0 $(CODE)
	@touch $@
