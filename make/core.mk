oracle: ## the restart set against brute force: all small graphs, all single and double faults
	@PYTHONPATH=src $(PY) tools/oracle.py

bench: ## ms and MB of the decision core at 10,000,000 vertices
	@PYTHONPATH=src $(PY) tools/bench_core.py

mutation: ## mutation testing of one pure room (ROOM=failover): which changes no test notices
	@$(PY) tools/mutation.py $(or $(ROOM),failover)

.PHONY: oracle bench mutation
