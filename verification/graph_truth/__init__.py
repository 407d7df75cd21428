"""The drawn graph against what Spark read: from its event log, and from the rows themselves."""
