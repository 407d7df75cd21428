RUNS ?= 200

orphans: ## RUNS=200 runs are killed at random (driver, executor, worker, gc): after one gc nothing is left, nothing needed is gone
	@$(VERIFY) orphans --runs $(RUNS) $(ARGS)

.PHONY: orphans

lifecycle: ## table D of the scenarios on a real cluster: the exact files of each result before and after (ARGS="--only pinned")
	@$(VERIFY) lifecycle $(ARGS)

.PHONY: lifecycle

ROUNDS ?= 50

executor-orphans: ## ROUNDS=50 runs taken over while their application lives on, and executors killed: what is left on executors
	@$(VERIFY) executor_orphans --rounds $(ROUNDS) $(ARGS)

.PHONY: executor-orphans
