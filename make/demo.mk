wheel: jar ## build the wheel, with the jar in it, into dist/
	@$(PY) -m hatchling build -t wheel

demo: ## a worker and a driver die in front of you, and the run heals (ARGS="--keep FOLDER")
	@PYTHONPATH=src $(PY) -c "from rekindle.cli.main import main; main()" demo $(ARGS)

first-five-minutes: jar ## the README's commands as written, from an empty virtual environment to a healed run
	@$(VERIFY) first_five_minutes $(ARGS)

.PHONY: wheel demo first-five-minutes
