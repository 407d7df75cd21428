oracle: ## the restart set against brute force, over a million cases (ORACLE="--every-3 1" for all of 3 steps)
	@PYTHONPATH=src $(PY) tools/oracle.py $(ORACLE)

bench: ## ms and MB of the decision core at 10,000,000 vertices
	@PYTHONPATH=src $(PY) tools/bench_core.py

mutation: ## mutation testing of one pure room (ROOM=failover): which changes no test notices
	@$(PY) tools/mutation.py $(or $(ROOM),failover)

.PHONY: oracle bench mutation
