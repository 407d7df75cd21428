"""The nightly ETL of a shop: as a plain script, with the on-ramp and as a pipeline, over ten days with faults."""
