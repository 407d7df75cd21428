"""Targets: what a sink is published to, the chain of pointers, what may not overlap."""
