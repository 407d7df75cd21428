parts: ## fetch the S3 server and the jars for Spark on S3 into a cache outside the repository
	@$(PY) tools/parts.py

.PHONY: parts
