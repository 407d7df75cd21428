nightly: ## a shop's nightly ETL over ten days with kills, corrections and changes, against bare Spark (ARGS="--days 3 --storage s3")
	@$(VERIFY) nightly $(ARGS)

.PHONY: nightly year dev-loop protection-cost

year: ## 365 nights are added to a target, on a disk and on S3: one more costs what the second one cost (ARGS="--nights 40 --only append")
	@$(VERIFY) year $(ARGS)

dev-loop: ## ten steps, the seventh changed after success: exactly 7 to 10 run, and after a failure at 9 what is missing
	@$(VERIFY) dev_loop

protection-cost: ## one night of the ETL as a plain script and as a pipeline, in turn: CPU, time, bytes, and what each kept step costs
	@$(VERIFY) protection_cost $(ARGS)
