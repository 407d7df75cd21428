release: jars ## build wheel and sdist into dist/, check them, install the wheel and use it (ARGS="--allow-dirty")
	@$(VERIFY) release $(ARGS)

.PHONY: release jars

jars: ## build the jar of every Spark line and of every table format, each against an environment of its own
	@$(VERIFY) build_jar --all
	@$(VERIFY) build_lake_jar

record-location: ## record the location of a failed run for this release, once; later releases must resume it
	@$(VERIFY) record_location

.PHONY: record-location
