identity-corpus: jar ## is the same code the same elsewhere, and changed code changed (ARGS="--only plain folder")
	@$(VERIFY) identity_corpus $(ARGS)

.PHONY: identity-corpus
