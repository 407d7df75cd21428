"""The state of a run, folded from events, and the commands that follow from it."""
