kinds: ## the four kinds of result compared under the same faults, on a real cluster (ARGS="--rows 240000")
	@$(VERIFY) kinds $(ARGS)

.PHONY: kinds
