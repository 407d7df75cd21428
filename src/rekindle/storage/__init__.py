"""Stores: where journals and results are, behind one port; one table of URL schemes."""
