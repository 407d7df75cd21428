first-light: ## one kept result through aborts, kills, late commits and zombies, on disk and S3
	@PYTHONPATH=src:tests:tools $(PY) -m first_light $(ARGS)

commit-technique: ## measure the commit techniques side by side
	@PYTHONPATH=src:tests:tools PYSPARK_PYTHON=$(PY) $(PY) tools/commit_technique.py $(ARGS)

.PHONY: first-light commit-technique

cluster-test: ## whole pipelines on a real cluster through every fault, on disk and S3 (ARGS="--only drivers")
	@PYTHONPATH=src:tests:tools $(PY) -m cluster_test $(ARGS)

kill-sweep: ## kill the driver before and after every append of a run's journal; resumable (ARGS="--minutes 20")
	@PYTHONPATH=src:tests:tools $(PY) tools/kill_sweep.py $(ARGS)

.PHONY: cluster-test kill-sweep
