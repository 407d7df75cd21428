oracle: ## the restart set against brute force, over a million cases (ORACLE="--every-3 1" for all of 3 steps)
	@$(VERIFY) oracle $(ORACLE)

stream-oracle: ## the batches of results that are made again against brute force (ARGS="--every 1" for all cases)
	@$(VERIFY) stream_oracle $(ARGS)

bench: ## ms and MB of the decision core at 10,000,000 vertices
	@$(VERIFY) bench_core

mutation: ## mutation testing of one pure room (ROOM=failover): which changes no test notices
	@$(VERIFY) mutation $(or $(ROOM),failover)

.PHONY: oracle stream-oracle bench mutation
