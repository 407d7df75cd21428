gc-races: ## gc against resume, as processes, 200 times: the resume is right or refused (ARGS="--rounds 20")
	@PYTHONPATH=src:tests:tools $(PY) tools/gc_races.py $(ARGS)

gc-scale: ## gc of 10,000 runs and 1,000,000 files, and on S3: time and memory (ARGS="--runs 100 --files 10000")
	@PYTHONPATH=src:tests:tools $(PY) tools/gc_scale.py $(ARGS)

.PHONY: gc-races gc-scale
