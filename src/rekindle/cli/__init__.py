"""The `rekindle` command: thin faces over the read models and the runtime."""
