nightly: ## a shop's nightly ETL over ten days with kills, corrections and changes, against bare Spark (ARGS="--days 3 --seed 7")
	@$(VERIFY) nightly $(ARGS)

.PHONY: nightly
