N ?= 200
differential: ## random pipelines against bare Spark, N in all over several sittings (ARGS="--minutes 20 --again --seed 7")
	@PYTHONPATH=src:tests:tools $(PY) -m differential -n $(N) $(ARGS)

.PHONY: differential
