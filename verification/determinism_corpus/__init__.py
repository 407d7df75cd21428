"""`make determinism-corpus`: small steps, what the table says of each, and what running them again and again says."""
