killed-publications: jar ## 200 publishers of each kind of target die by kill -9 at every step: readers see old or new (ARGS="--only replace --on s3")
	@$(VERIFY) killed_publications $(ARGS)

.PHONY: killed-publications
