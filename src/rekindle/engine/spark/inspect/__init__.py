"""A second look at what a run keeps: verified and reproduced."""
