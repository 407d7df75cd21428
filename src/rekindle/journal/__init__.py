"""MEMORY: the journal of a run. Facts, in order, written before anything acts on them, by one master."""
