"""The simulated world: an engine and a storage that outlive a crashed master, driven by one seed."""
