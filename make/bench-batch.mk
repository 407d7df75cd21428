bench-batch: ## P1, P3, P4, P5 against bare Spark on 1 GB, interleaved (ARGS="--only p4 --rounds 3 --profile")
	@$(VERIFY) bench_batch $(ARGS)

bench-skew: ## a skewed join as a kept step against Spark's adaptive execution
	@$(VERIFY) bench_skew $(ARGS)

.PHONY: bench-batch bench-skew
