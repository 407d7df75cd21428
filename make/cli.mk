reference: ## write docs/reference from the code: settings, commands, errors
	@PYTHONPATH=src $(PY) tools/reference.py

cli-times: ## how long `rekindle --help` and `rekindle runs` with 1,000 runs take, beside `python -c pass`
	@PYTHONPATH=src:tests $(PY) tools/cli_times.py $(ARGS)

.PHONY: reference cli-times
