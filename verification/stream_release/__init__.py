"""The life of a result between streaming regions: thousands of batches, and what is left of them."""
