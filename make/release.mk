release: jar ## build wheel and sdist into dist/, check them, install the wheel and use it (ARGS="--allow-dirty")
	@$(VERIFY) release $(ARGS)

.PHONY: release

record-location: ## record the location of a failed run for this release, once; later releases must resume it
	@$(VERIFY) record_location

.PHONY: record-location
