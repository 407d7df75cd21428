graph-truth: ## drawn edges and regions of many pipelines against Spark's tasks and the rows (ARGS="--only union,sort")
	@$(VERIFY) graph_truth $(ARGS)

lost-partitions: ## what one lost partition below a union, a coalesce and a broadcast costs, on a real cluster
	@$(VERIFY) lost_partitions

drills: ## rekindle graph --if … --execute: a vertex, an executor and a driver fail, planned and run, for each strategy
	@$(VERIFY) drills $(ARGS)

.PHONY: graph-truth lost-partitions drills
