first-light: ## one kept result through aborts, kills, late commits and zombies, on disk and S3
	@PYTHONPATH=src:tests:tools $(PY) -m first_light $(ARGS)

commit-technique: ## measure the commit techniques side by side
	@PYTHONPATH=src:tests:tools PYSPARK_PYTHON=$(PY) $(PY) tools/commit_technique.py $(ARGS)

.PHONY: first-light commit-technique
