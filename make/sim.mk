SEEDS ?= 5000

sim: ## SEEDS=5000 schedules of the simulated world; any violated rule fails it
	@PYTHONPATH=src $(PY) tools/sim.py --seeds $(SEEDS)

planted: ## every planted bug must be caught by the simulated world
	@PYTHONPATH=src $(PY) tools/planted.py

.PHONY: sim planted
