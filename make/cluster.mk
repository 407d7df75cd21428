parts: ## fetch the S3 server and the jars for Spark on S3 into a cache outside the repository
	@$(PY) tools/parts.py

cluster-up: ## start a Spark cluster (a master, two workers) on loopback; its state is in .cluster/
	@PYTHONPATH=src $(PY) tools/cluster.py up

cluster-down: ## end the cluster of cluster-up, by recorded process
	@PYTHONPATH=src $(PY) tools/cluster.py down

.PHONY: parts cluster-up cluster-down
