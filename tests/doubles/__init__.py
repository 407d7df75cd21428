"""Stand-ins that only tests need: an adapter, a user, stores and a server that misbehave on purpose."""
