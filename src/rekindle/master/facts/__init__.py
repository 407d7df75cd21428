"""What happened and what was asked for: values that are recorded or given."""
