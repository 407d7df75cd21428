"""`make orphans`: what is left after many runs were killed, and one gc."""
