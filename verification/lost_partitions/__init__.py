"""One lost partition below a union, a coalesce and a broadcast: what runs again, now and with the edges of before."""
