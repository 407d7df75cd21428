"""From declared steps to held plans: everything that is known before a job runs."""
