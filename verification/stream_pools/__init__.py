"""A light region beside a heavy one, with and without pools."""
