"""Committed results on their way into targets."""
