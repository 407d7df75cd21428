house: ## the house: circles, imports upwards, doubled names, what nothing reaches, long argument lists, carriers
	@PYTHONPATH=src $(PY) tools/house.py

.PHONY: house
