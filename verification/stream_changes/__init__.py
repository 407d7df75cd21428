"""Changed code over one checkpoint: what is said beforehand, and what becomes of the rows."""
