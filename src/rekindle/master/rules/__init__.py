"""One file per question that the master decides."""
