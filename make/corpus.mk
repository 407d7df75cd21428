determinism-corpus: ## the determinism table against steps that were run again and again (ARGS="--report")
	@$(VERIFY) determinism_corpus $(ARGS)

determinism-in-runs: ## how determinate a run counts each step of the corpus, against what its report says that they are
	@PYSPARK_PYTHON=$(PY) $(VERIFY) determinism_in_runs $(ARGS)

corruption-cases: ## public ways to lose or double rows: bare Spark unprotected, and Rekindle (ARGS="--only rand-salt")
	@$(VERIFY) corruption_cases $(ARGS)

consumers-spared: ## finished consumers of a lost determinate partition that start over: ours, and by Flink's rule
	@$(VERIFY) consumers_spared

.PHONY: determinism-corpus determinism-in-runs corruption-cases consumers-spared
