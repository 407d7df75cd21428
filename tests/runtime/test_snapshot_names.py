"""A snapshot counts only for the code that folded it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import house
import house_reach
from rekindle.runtime.snapshots import FOLDING_ROOMS, digest_of_code, fold_name

FOLD = "rekindle.master.state.apply"
# Errors and what is said with them are raised: no state is made of them.
RAISED = {"rekindle.errors", "rekindle.remedies"}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("package")
    for room in FOLDING_ROOMS:
        shutil.copytree(house.SRC / room, root / room, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def folding() -> set[str]:
    """The modules that the fold imports, and those that they import."""
    modules = {house_reach.module_name(path, house.SRC): path for path in house.files()}
    found, waiting = set(), [FOLD]
    while waiting:
        name = waiting.pop()
        if name in modules and name not in found:
            found.add(name)
            waiting += [one.module for one in house.imports(modules[name])]
    return found


def test_all_code_that_the_fold_can_call_is_in_its_name(copy: Path) -> None:
    assert digest_of_code(copy) == fold_name()
    outside = {name for name in folding() if name.split(".")[1] not in FOLDING_ROOMS}
    assert outside == RAISED


@pytest.mark.parametrize("module", sorted(name for name in folding() if name not in RAISED))
def test_a_change_of_any_of_it_is_another_name(copy: Path, module: str) -> None:
    *folders, name = module.split(".")[1:]
    path = copy.joinpath(*folders, f"{name}.py")
    path = path if path.exists() else copy.joinpath(*folders, name, "__init__.py")
    text = path.read_bytes()
    path.write_bytes(text + b"# another rule")
    try:
        assert digest_of_code(copy) != fold_name()
    finally:
        path.write_bytes(text)
