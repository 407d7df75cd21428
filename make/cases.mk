cases: ## ordinary programs by bare Spark and by Rekindle: equal, or refused before anything ran (ARGS="--only 7c")
	@$(VERIFY) cases $(ARGS)

.PHONY: cases
