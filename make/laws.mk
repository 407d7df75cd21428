bench-laws: jar ## thread CPU of the laws of the rows over that of a run at 1 GB (ARGS="--gigabytes 0.1")
	@PYTHONPATH=src:tests:tools PYSPARK_PYTHON=$(PY) $(PY) tools/bench_laws.py $(ARGS)

.PHONY: bench-laws
