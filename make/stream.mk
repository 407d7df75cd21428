FENCE_ROUNDS ?= 20

stream-fence: ## FENCE_ROUNDS=20 streaming drivers frozen in a batch and woken beside their successors: rows that count, rows twice
	@$(VERIFY) stream_fence --rounds $(FENCE_ROUNDS) $(ARGS)

.PHONY: stream-fence
