"""The surface of the package: a golden list, sorted, and light to import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import rekindle

NAMES = """
    Fenced GraphRefused Pipeline Plan Refused RekindleError RunFailed RunOptions RunSummary Shard StepSummary
    StillOwned StoreFailed StreamPlan StreamSummary __version__ delta directory each_batch each_partition files iceberg
    kafka previous read_kafka read_newest read_result replace run run_time seed table
""".split()
PIPELINE = """
    add_sink add_source add_step check graph name plan plan_stream reproduce run show sink source step try_steps verify
""".split()


def test_the_public_names_are_these_and_sorted() -> None:
    assert rekindle.__all__ == NAMES == sorted(NAMES)
    assert all(hasattr(rekindle, name) for name in NAMES)


def test_a_pipeline_can_do_these() -> None:
    assert [name for name in dir(rekindle.Pipeline("daily")) if not name.startswith("_")] == PIPELINE


def test_importing_rekindle_imports_no_engine() -> None:
    heavy = "{'pyspark', 'py4j', 'obstore', 'pandas', 'numpy'}"
    code = f"import sys, rekindle; print(sorted({heavy} & {{name.split('.')[0] for name in sys.modules}}))"
    paths = os.environ | {"PYTHONPATH": str(Path(rekindle.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=paths)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
