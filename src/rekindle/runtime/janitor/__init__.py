"""gc without Spark: look at runs, remove what nobody can need, close what nobody resumed."""
