"""Files of results: their names, their lists, what is left over."""
