"""Campaigns of the command line: what a user types, in real processes, judged by journals and Spark's event logs."""
