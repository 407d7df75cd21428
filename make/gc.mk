gc-races: ## gc against resume, as processes, 200 times: the resume is right or refused (ARGS="--rounds 20")
	@$(VERIFY) gc_races $(ARGS)

gc-scale: ## gc of 10,000 runs and 1,000,000 files, and on S3: time and memory (ARGS="--runs 100 --files 10000")
	@$(VERIFY) gc_scale $(ARGS)

.PHONY: gc-races gc-scale
