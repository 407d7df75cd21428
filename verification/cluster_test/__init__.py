"""Whole pipelines on a real cluster, on disk and on S3, through every fault that issue, plan and reader can meet."""
