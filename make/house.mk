house: ## the house: circles, imports upwards, doubled names, what nothing reaches, long argument lists, carriers
	@$(VERIFY) house

.PHONY: house
