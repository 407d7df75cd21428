digest-mutations: jar ## a million changed partitions are all seen by their digests, a million permuted ones by none
	@PYTHONPATH=src:tests:tools PYSPARK_PYTHON=$(PY) $(PY) tools/digest_mutations.py $(ARGS)

bench-digest: jar ## P6: CPU of a write with digests against one without (ARGS="--rounds 3 --rows 200000 --only narrow10")
	@PYTHONPATH=src:tests:tools PYSPARK_PYTHON=$(PY) $(PY) tools/bench_digest.py $(ARGS)

.PHONY: digest-mutations bench-digest
