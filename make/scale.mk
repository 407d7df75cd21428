scale-partitions: ## what a partition costs the driver: 1,000, 10,000 and 100,000 in one step
	@PYSPARK_PYTHON=$(PY) $(VERIFY) scale_partitions $(ARGS)

versions: ## the engine's tests on PySpark 3.5 and 4.0 to 4.3, each in its own environment (ARGS="--only 3.5")
	@$(VERIFY) versions $(ARGS)

.PHONY: scale-partitions versions

reuse: jar ## the same failed run, resumed by a new driver on PySpark 3.5 and 4.0 to 4.3: how much is reused (ARGS="--only 3.5")
	@$(VERIFY) reuse $(ARGS)

.PHONY: reuse
