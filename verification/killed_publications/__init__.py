"""Publishers die by kill -9, or sleep, at every step of a publication: readers see the old or the new rows."""
