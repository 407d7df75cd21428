"""Three regions, one of which fails: what the others notice."""
