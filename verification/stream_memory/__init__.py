"""A memory result between regions of a stream: what is read again, and what is made again."""
