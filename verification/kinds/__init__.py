"""The four kinds of result on one pipeline, under the same faults, on a real cluster."""
