yarn: jar ## one run on a real YARN whose application master is killed ten times (ARGS="--kills 3")
	@$(VERIFY) yarn $(ARGS)

emr-like: jar ## PySpark 3.5 with the wheel of this tree, YARN and HDFS: the application master is killed, and the run goes on
	@$(VERIFY) yarn --release 3.5 --kills 1 --partitions 8 --only cluster $(ARGS)

.PHONY: yarn emr-like
