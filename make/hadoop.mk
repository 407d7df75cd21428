yarn: jar ## one run on a real YARN whose application master is killed ten times (ARGS="--kills 3")
	@$(VERIFY) yarn $(ARGS)

.PHONY: yarn
