"""Only for tests: an adapter, a user, stores and a server that misbehave on purpose, and damage to files."""
