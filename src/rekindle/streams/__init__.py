"""Decisions about streams: the machine of a run without end. Pure, as the batch master is."""
