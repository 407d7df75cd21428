"""Every failover strategy against the same faults, on one real cluster."""
