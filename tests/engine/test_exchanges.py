"""When is a recomputed map output the same? Row by row, on values."""

from __future__ import annotations

import pytest

from rekindle.engine.spark.run.exchanges import MapOutputs

BEFORE = MapOutputs((10, 11), (5, 6), ())


@pytest.mark.parametrize(
    ("now", "is_as_before"),
    [
        pytest.param(BEFORE, True, id="nothing happened"),
        pytest.param(MapOutputs((10, 42), (5, 6), ()), True, id="recomputed with an equal checksum"),
        pytest.param(MapOutputs((10, 42), (5, 7), ()), False, id="recomputed with another checksum"),
        pytest.param(MapOutputs((10, 42), (5, 0), ()), False, id="recomputed without a checksum"),
        pytest.param(MapOutputs((10, -1), (5, 0), ()), True, id="an output is lost and not yet recomputed"),
        pytest.param(MapOutputs((), (), ()), False, id="Spark forgot the exchange"),
        pytest.param(MapOutputs((10, 11), (5, 6), (1,)), False, id="Spark saw another checksum once"),
    ],
)
def test_as_before(now: MapOutputs, is_as_before: bool) -> None:
    assert now.is_as_before(BEFORE) is is_as_before


@pytest.mark.parametrize(("checksum", "is_as_before"), [(6, True), (0, False)])
def test_an_output_that_was_gone_at_the_first_look_needs_a_checksum(checksum: int, is_as_before: bool) -> None:
    assert MapOutputs((10, 42), (5, checksum), ()).is_as_before(MapOutputs((10, -1), (5, 0), ())) is is_as_before


def test_no_checksum_at_all_is_no_proof() -> None:
    assert not MapOutputs((12,), (0,), ()).is_as_before(MapOutputs((11,), (0,), ()))
