# Every target uses the .venv that `make install` makes. `make` alone prints this list.
SHELL := /bin/bash
PY := .venv/bin/python
.DEFAULT_GOAL := help
# What a campaign starts as a user would listens here and nowhere else.
export SPARK_LOCAL_IP ?= 127.0.0.1

help: ## print this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

install: ## make .venv with everything for development, and build the jar
	@test -x $(PY) || python3 -m venv .venv
	@$(PY) -m pip install -q --upgrade "pip>=25.1"
	@$(PY) -m pip install -q --group dev -e .
	@$(MAKE) --no-print-directory jar

jar: ## build the commit protocol against the jars of the PySpark wheel
	@$(PY) tools/build_jar.py

check: ## ruff, format, mypy strict
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

test: ## all tests, on real Spark processes where they need them
	@$(PY) -m pytest -q

docs: ## build the documentation; a warning is an error
	@$(PY) -m mkdocs build --strict --quiet --site-dir site

.PHONY: help install jar check test docs
-include make/*.mk
