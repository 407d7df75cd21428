nightly: ## a shop's nightly ETL over ten days with kills, corrections and changes, against bare Spark (ARGS="--days 3 --seed 7")
	@$(VERIFY) nightly $(ARGS)

.PHONY: nightly year dev-loop

year: ## 365 nights are added to a target, on a disk and on S3: one more costs what the second one cost (ARGS="--nights 40 --only append")
	@$(VERIFY) year $(ARGS)

dev-loop: ## ten steps, the seventh changed after success: exactly 7 to 10 run, and after a failure at 9 what is missing
	@$(VERIFY) dev_loop
