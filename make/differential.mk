N ?= 200
differential: ## random pipelines against bare Spark, N in all over several sittings (ARGS="--minutes 20 --without-checksums --seed 7")
	@$(VERIFY) differential -n $(N) $(ARGS)

.PHONY: differential
