starts: ## three starts at once, a retry and a watcher while it lives, --supervise through five kills: published once
	@$(VERIFY) commands.starts $(ARGS)

plan-truth: ## the plan printed before a start is what then ran, vertex by vertex (ARGS="--only bit-flipped")
	@$(VERIFY) commands.plan_truth $(ARGS)

.PHONY: starts plan-truth
