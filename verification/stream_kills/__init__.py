"""A stream of many regions under faults, against a batch over the same input."""
