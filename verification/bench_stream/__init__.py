"""What supervising costs a stream: restarts and batches, against bare queries."""
