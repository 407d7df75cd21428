first-light: ## one kept result through aborts, kills, late commits and zombies, on disk and S3
	@$(VERIFY) first_light $(ARGS)

commit-technique: ## measure the commit techniques side by side
	@PYSPARK_PYTHON=$(PY) $(VERIFY) commit_technique $(ARGS)

.PHONY: first-light commit-technique

cluster-test: ## whole pipelines on a real cluster through every fault, on disk and S3 (ARGS="--only drivers")
	@$(VERIFY) cluster_test $(ARGS)

kill-sweep: ## kill the driver before and after every append of a run's journal; resumable (ARGS="--minutes 20")
	@$(VERIFY) kill_sweep $(ARGS)

strategies: ## every failover strategy under the same faults: what was planned is what ran (ARGS="--place disk")
	@$(VERIFY) strategies $(ARGS)

.PHONY: cluster-test kill-sweep strategies
