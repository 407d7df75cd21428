"""The loop: decide, append, apply, dispatch, in that order, in one place."""
