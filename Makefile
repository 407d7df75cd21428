# Every target uses the .venv that `make install` makes. `make` alone prints this list.
SHELL := /bin/bash
PY := .venv/bin/python
# What is not in the wheel: campaigns, benches, checks of the repository.
VERIFY := $(PY) -m verification
.DEFAULT_GOAL := help
# What a campaign starts as a user would listens here and nowhere else.
export SPARK_LOCAL_IP ?= 127.0.0.1
# How many processes pytest uses.
WORKERS ?= 2
# Another PySpark than the one of development, such as 4.1: `make install PYSPARK=4.1`.
PYSPARK ?=

help: ## print this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

install: ## make .venv with everything for development, and build the jar
	@test -x $(PY) || python3 -m venv .venv
	@$(PY) -m pip install -q --upgrade "pip>=25.1"
	@$(PY) -m pip install -q --group dev -e .
	@test -z "$(PYSPARK)" || $(PY) -m pip install -q "pyspark==$(PYSPARK).*"
	@$(MAKE) --no-print-directory jar

jar: ## build our jar against the jars of the PySpark that is installed
	@$(VERIFY) build_jar

check: ## ruff, format, mypy strict
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

# pytest rewrites each test file before it runs it: half the time of test-fast, unless it may keep what it made.
test-fast: export PYTHONDONTWRITEBYTECODE :=
test-fast: ## the tests that start no Spark, no cluster and no server, in seconds
	@$(PY) -m pytest -q -n $(WORKERS) --ignore=tests/cluster --ignore=tests/cases \
	  -m "not spark and not cluster and not s3 and not hdfs and not slow"

test: ## all tests, on real Spark processes where they need them; prints the slowest
	@$(PY) -m pytest -q -n $(WORKERS) --durations=20

coverage: ## every branch of the pure rooms is taken by their own tests, none only by the luck of a draw
	@$(PY) -m pytest -qq -n $(WORKERS) tests/model tests/failover tests/master tests/replay tests/observe tests/testing tests/streams \
	  --cov=rekindle.model --cov=rekindle.failover --cov=rekindle.master --cov=rekindle.streams --cov=rekindle.gc.policy --cov-report=term-missing:skip-covered \
	  -m "not slow and not spark and not hypothesis" --cov-fail-under=100

docs: ## build the documentation; a warning is an error
	@$(PY) -m mkdocs build --strict --quiet --site-dir site

.PHONY: help install jar check test-fast test coverage docs
-include make/*.mk
