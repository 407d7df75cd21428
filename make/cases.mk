cases: ## ordinary programs by bare Spark and by Rekindle: equal, or refused before anything ran (ARGS="--only 7c")
	@PYTHONPATH=src:tests:tools $(PY) -m cases $(ARGS)

.PHONY: cases
