"""What executors keep of a run whose master is gone, or of executors that were killed."""
