reference: ## write docs/reference from the code: settings, commands, errors
	@$(VERIFY) reference

cli-times: ## how long `rekindle --help` and `rekindle runs` with 1,000 runs take, beside `python -c pass`
	@$(VERIFY) cli_times $(ARGS)

.PHONY: reference cli-times
