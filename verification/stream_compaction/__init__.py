"""`make stream-compaction`: small files of a stream become few while its driver is killed and readers read on."""
