yarn: jar ## one run on a real YARN whose application master is killed ten times (ARGS="--kills 3")
	@$(VERIFY) yarn $(ARGS)

emr-like: ## the page docs/how-to/emr.md as written: PySpark 3.5 with the wheel on YARN and HDFS, a driver killed, the run goes on
	@$(VERIFY) yarn.page

.PHONY: yarn emr-like
