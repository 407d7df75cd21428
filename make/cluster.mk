parts: ## fetch the S3 server, Azurite, Kafka, Hadoop and the jars for Spark on them into a cache outside the repository
	@$(VERIFY) parts

classes: ## keep Spark's classes in the cache, so that the JVMs of tests start faster
	@$(VERIFY) class_archives

cluster-up: ## start a Spark cluster (a master, two workers) on loopback; its state is in .cluster/
	@$(VERIFY) cluster up

cluster-down: ## end the cluster of cluster-up, by recorded process
	@$(VERIFY) cluster down

.PHONY: parts classes cluster-up cluster-down
