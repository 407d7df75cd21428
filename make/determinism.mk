digest-mutations: jar ## a million changed partitions are all seen by their digests, a million permuted ones by none
	@PYSPARK_PYTHON=$(PY) $(VERIFY) digest_mutations $(ARGS)

bench-digest: jar ## P6: CPU of a write with digests against one without (ARGS="--rounds 3 --rows 200000 --only narrow10")
	@PYSPARK_PYTHON=$(PY) $(VERIFY) bench_digest $(ARGS)

.PHONY: digest-mutations bench-digest
