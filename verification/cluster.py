"""Start a local Spark cluster that outlives this command, or end the one that was started.

`up` writes down which processes it started, by pid and start time; `down` ends exactly those and their executors,
and touches no process that got one of the pids later. The state file is .cluster/state.json of the repository.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from rekindle.local_cluster.cluster import EXECUTOR_CLASS, LocalCluster
from rekindle.local_cluster.processes import Process, end

FOLDER = Path(__file__).parent.parent / ".cluster"
STATE = FOLDER / "state.json"


def up() -> int:
    if any(process.is_alive() for process in _recorded()):
        print(f"a cluster is already up: see {STATE}, or type: make cluster-down", file=sys.stderr)
        return 1
    cluster = LocalCluster(folder=FOLDER / "run")
    try:
        cluster.start()
    except BaseException:
        cluster.stop()
        raise
    state = {
        "master_url": cluster.master_url,
        "processes": [{"pid": it.pid, "start_ticks": it.start_ticks} for it in cluster.processes],
        "settings": cluster.app_settings(FOLDER / "events"),
        "env": cluster.app_env,
    }
    STATE.write_text(json.dumps(state, indent=2))
    print(f"RESULT master_url={cluster.master_url} workers={len(cluster.worker_pids)} up=1")
    return 0


def down() -> int:
    daemons = _recorded()
    children = [child for daemon in daemons if daemon.is_alive() for child in daemon.children()]
    executors = [child for child in children if EXECUTOR_CLASS in child.command()]
    ended = [process for process in [*daemons, *executors] if process.is_alive()]
    end(daemons)
    end(executors)
    left = sum(process.is_alive() for process in ended)
    if left == 0:
        shutil.rmtree(FOLDER, ignore_errors=True)
    print(f"RESULT ended={len(ended) - left} left={left}")
    return 1 if left else 0


def _recorded() -> list[Process]:
    if not STATE.exists():
        return []
    return [Process(**process) for process in json.loads(STATE.read_text())["processes"]]


def main(arguments: list[str]) -> int:
    match arguments:
        case ["up"]:
            return up()
        case ["down"]:
            return down()
        case _:
            print("usage: cluster.py up | down", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
