nightly: ## a shop's nightly ETL over ten days with kills, corrections and changes, against bare Spark (ARGS="--days 3 --seed 7")
	@$(VERIFY) nightly $(ARGS)

.PHONY: nightly year

year: ## 365 nights are added to a target, on a disk and on S3: one more costs what the second one cost (ARGS="--nights 40 --only append")
	@$(VERIFY) year $(ARGS)
