"""What tests on real processes share: a store, drivers, signals, and Spark's own event logs."""
