FENCE_ROUNDS ?= 20

stream-fence: ## FENCE_ROUNDS=20 streaming drivers frozen in a batch and woken beside their successors: rows that count, rows twice
	@$(VERIFY) stream_fence --rounds $(FENCE_ROUNDS) $(ARGS)

.PHONY: stream-fence

KILLS ?= 60

stream-kills: ## KILLS=60 faults of a stream on a real cluster: drivers, executors and workers killed, drivers frozen; rows against a batch
	@$(VERIFY) stream_kills --kills $(KILLS) $(ARGS)

.PHONY: stream-kills

stream-alone: ## three regions on a real cluster, one fails three times: run ids, longest gaps and rows of the others, by Spark's event log
	@$(VERIFY) stream_alone $(ARGS)

.PHONY: stream-alone

bench-stream: ## what a restart of a region and a batch cost against bare queries: CPU and time, with a control
	@$(VERIFY) bench_stream $(ARGS)

.PHONY: bench-stream

stream-soak: ## 24 regions in one driver on a real cluster, a fault every 20 seconds for 30 minutes: slopes of what the driver holds
	@$(VERIFY) stream_soak $(ARGS)

.PHONY: stream-soak

stream-pools: ## how long a light region waits beside a heavy one, with FIFO and with a pool for each region
	@$(VERIFY) stream_pools $(ARGS)

.PHONY: stream-pools

stream-changes: ## kinds of changed code over one checkpoint: our verdict against what becomes of the rows by Spark alone; silent mixtures
	@$(VERIFY) stream_changes $(ARGS)

.PHONY: stream-changes

stream-poison: ## one record in 100,000 fails every time: named, kept aside, all others exactly once; Spark jobs needed
	@$(VERIFY) stream_poison $(ARGS)

.PHONY: stream-poison

stream-compaction: ## a stream compacted all the time, its driver killed, under readers; what a long stream costs before and after (ARGS="--batches 20000")
	@$(VERIFY) stream_compaction $(ARGS)

.PHONY: stream-compaction

stream-results: ## KILLS=60 faults of a stream whose regions read each other's result: rows, restarts of the producer, batches read again, files left
	@$(VERIFY) stream_results --kills $(KILLS) $(ARGS)

.PHONY: stream-results

bench-stream-results: ## what a result between two streaming regions costs in CPU, against one query, against a topic, and as its log grows
	@$(VERIFY) bench_results $(ARGS)

.PHONY: bench-stream-results

stream-release: ## 5,000 batches of a result between regions, drivers killed, a reader that leaves and comes back: what is kept of it, and what is left
	@$(VERIFY) stream_release $(ARGS)

.PHONY: stream-release

stream-shards: ## four shards, one with a poison record, against four without; four become eight under load with drivers killed
	@$(VERIFY) stream_shards $(ARGS)

.PHONY: stream-shards

stream-memory: ## memory results: what a reader's recovery reads of the topic by the broker's counter, batches made again, what the plan says
	@$(VERIFY) stream_memory $(ARGS)

.PHONY: stream-memory
