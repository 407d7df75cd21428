"""Results on executors of a real cluster: an executor is killed between the two readers of a step."""

from __future__ import annotations

import pytest

from build_jar import TEST_JAR
from kinds.__main__ import again, drive, make_input
from kinds.driver import Answer, Order, Orders
from kinds.shop import PARTITIONS
from rekindle.local_cluster.cluster import LocalCluster

pytestmark = pytest.mark.cluster
ROWS = 2_000
CASES = {
    "determinate": ("caching", False),
    "random": ("caching", True),
    "memory": ("memory", True),
    "control": ("persist", True),
}


@pytest.fixture(scope="module")
def answers(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answer]:
    """One driver makes all runs; a new executor takes the place of each that is killed."""
    folder = tmp_path_factory.mktemp("kinds")
    source = make_input(folder / "input", ROWS)
    worker = cluster.worker(0)
    runs = [Order("caching", "executor", str(folder / "replicated"), is_random=True, replicas=2)]
    runs += [Order(kind, "executor", str(folder / name), is_random) for name, (kind, is_random) in CASES.items()]
    orders = Orders(str(source), ROWS, str(TEST_JAR), (worker.process.pid, worker.host), "", runs)
    return dict(zip(("replicated", *CASES), drive(cluster, folder / "driver", orders), strict=True))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["determinate", "random", "memory"])
def test_exactly_what_lay_on_the_executor_is_made_again_and_both_readers_see_one_version(
    answers: dict[str, Answer], name: str
) -> None:
    found = answers[name]
    assert 0 < len(found.on_executor) < PARTITIONS
    assert found.lost == {"priced": found.on_executor}
    assert sorted(again(found, "priced")) == found.on_executor
    assert sorted(again(found, "totals")) == (found.on_executor if found.order.is_random else [])
    assert not again(found, "report")
    assert found.is_one_version


@pytest.mark.timeout(1800)
def test_what_lies_on_two_executors_survives_the_loss_of_one(answers: dict[str, Answer]) -> None:
    found = answers["replicated"]
    assert found.on_executor == list(range(PARTITIONS)), "a copy of each was lost"
    assert not found.lost and not any(again(found, step) for step in ("priced", "totals", "report"))
    assert found.is_one_version


@pytest.mark.timeout(1800)
def test_the_control_plain_persist_changes_rows_unseen(answers: dict[str, Answer]) -> None:
    assert 0 < answers["control"].changed_rows < ROWS
