"""A real Spark cluster on this machine, for `demo`, tests and campaigns."""
