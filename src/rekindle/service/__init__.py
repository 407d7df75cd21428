"""Use cases: start, plan, keep, reproduce, verify, watch. Faces call these and nothing below."""
