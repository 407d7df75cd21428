"""The world: what runs the commands of the master and reports back."""
