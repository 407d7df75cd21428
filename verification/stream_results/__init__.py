"""The result of a streaming region that others read, under faults."""
