# The journal on real stores: conformance, two masters, crash points, fuzz, opening time.

stores: ## conformance of every store, and the refusal of a broken one
	@$(VERIFY) stores --races 200 $(ARGS)

two-masters: ROUNDS = 1000
two-masters: ## two processes fight for one run, on disk, S3, HDFS and Azurite (ROUNDS=1000)
	@$(VERIFY) two_masters --rounds $(ROUNDS) $(ARGS)

crash-points: ## kill -9 before and after every step of an append
	@$(VERIFY) crash_points

fuzz: N = 1000000
fuzz: ## mutated records and directories: never a wrong fold (N=1000000)
	@$(VERIFY) fuzz --cases $(N)

bench-journal: ## P10: open and fold 1,000,000 committed partitions and 10,000 records
	@$(VERIFY) bench_journal

sim-journal: SEEDS = 20000
sim-journal: ## the simulated world over the real journal (SEEDS=20000)
	@$(VERIFY) sim_journal --seeds $(SEEDS)

.PHONY: sim-journal stores two-masters crash-points fuzz bench-journal
