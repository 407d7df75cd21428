weather: jar ## faults of a batch where executors come and go, tasks run twice, Spark encrypts or its shuffle is another's (ARGS="--only dynamic")
	@$(VERIFY) weather $(ARGS)

.PHONY: weather
