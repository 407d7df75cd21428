"""`make corruption-cases`: public ways in which Spark loses or doubles rows, with and without Rekindle."""
