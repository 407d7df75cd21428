"""What Rekindle costs, and what it saves, against bare Spark on the same data: P1, P3, P4, P5 and a skewed join."""
