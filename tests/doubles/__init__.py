"""Stand-ins that tests share: engines, adapters, stores and servers that misbehave on purpose."""
