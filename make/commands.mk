starts: ## three starts at once, a retry and a watcher while it lives, --supervise through five kills: published once
	@PYTHONPATH=src:tests:tools $(PY) -m commands.starts $(ARGS)

plan-truth: ## the plan printed before a start is what then ran, vertex by vertex (ARGS="--only bit-flipped")
	@PYTHONPATH=src:tests:tools $(PY) -m commands.plan_truth $(ARGS)

.PHONY: starts plan-truth
