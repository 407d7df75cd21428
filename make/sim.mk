SEEDS ?= 5000

sim: ## SEEDS=5000 schedules of the simulated world; any violated rule fails it
	@$(VERIFY) sim --seeds $(SEEDS)

planted: ## every planted bug must be caught by the simulated world
	@$(VERIFY) planted

.PHONY: sim planted
