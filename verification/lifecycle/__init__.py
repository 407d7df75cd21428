"""`make lifecycle`: the life of result partitions on a real cluster, with the exact sets of files before and after."""
