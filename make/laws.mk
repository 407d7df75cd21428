bench-laws: jar ## thread CPU of the laws of the rows over that of a run at 1 GB (ARGS="--gigabytes 0.1")
	@PYSPARK_PYTHON=$(PY) $(VERIFY) bench_laws $(ARGS)

.PHONY: bench-laws
