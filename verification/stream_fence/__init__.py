"""A driver that wakes up beside its successor, in the middle of a streaming batch."""
