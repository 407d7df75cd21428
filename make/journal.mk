# The journal on real stores: conformance, two masters, crash points, fuzz, opening time.
JOURNAL := PYTHONPATH=src:tests:tools $(PY)

stores: ## conformance of every store, and the refusal of a broken one
	@$(JOURNAL) tools/stores.py --races 200

two-masters: ROUNDS = 1000
two-masters: ## two processes fight for one run, on disk and S3 (ROUNDS=1000)
	@$(JOURNAL) tools/two_masters.py --rounds $(ROUNDS)

crash-points: ## kill -9 before and after every step of an append
	@$(JOURNAL) tools/crash_points.py

fuzz: N = 1000000
fuzz: ## mutated records and directories: never a wrong fold (N=1000000)
	@$(JOURNAL) tools/fuzz.py --cases $(N)

bench-journal: ## P10: open and fold 1,000,000 committed partitions and 10,000 records
	@$(JOURNAL) tools/bench_journal.py

sim-journal: SEEDS = 20000
sim-journal: ## the simulated world over the real journal (SEEDS=20000)
	@$(JOURNAL) tools/sim_journal.py --seeds $(SEEDS)

.PHONY: sim-journal stores two-masters crash-points fuzz bench-journal
