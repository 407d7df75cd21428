"""First light: one kept result that survives an abort and a dead driver, shown on real processes."""
