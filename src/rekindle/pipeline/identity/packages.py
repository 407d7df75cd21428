"""Whose code is it? The user's own counts by what it does, an installed package by its version.

Installed is what lies in Python's library or in a folder for packages; PySpark is it wherever it lies. Python's own
library counts by Python's version, and Rekindle itself not at all: a new release of it changes no row.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import PurePath
from types import FunctionType

LIBRARIES = (
    *(f"{sysconfig.get_paths()[name]}/" for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    f"{PurePath(os.__file__).parent}/",
)
FOLDERS = frozenset({"site-packages", "dist-packages"})
RUNS_STEPS = frozenset({"rekindle", "pyspark", "py4j"})


def top_of(module: str) -> str:
    return module.partition(".")[0]


def is_users_function(function: FunctionType) -> bool:
    home = str(function.__globals__.get("__name__", ""))
    return top_of(home) not in RUNS_STEPS and is_users_file(function.__code__.co_filename)


def is_users_module(name: str) -> bool:
    top = top_of(name)
    if top in RUNS_STEPS:
        return False
    if top in sys.stdlib_module_names:  # The user may have one of the same name: where it lies tells.
        file = getattr(sys.modules.get(name), "__file__", None)
        return bool(file) and is_users_file(str(file))
    path = _file_of(name)
    return path is None or is_users_file(path)


def is_users_file(path: str) -> bool:
    return not (path.startswith((*LIBRARIES, "<frozen")) or FOLDERS & set(PurePath(path).parts))


def version_of(package: str) -> str:
    """The version of the distribution that brought a top-level module; of all of them if they share its name."""
    names = sorted(set(_distributions().get(package, ())))
    versions = [(name, importlib.metadata.version(name)) for name in names]
    if len(versions) == 1:
        return versions[0][1]
    if versions:
        return ", ".join(f"{name} {version}" for name, version in versions)
    return str(getattr(sys.modules.get(package), "__version__", "no version"))


@cache
def _distributions() -> Mapping[str, Sequence[str]]:
    return importlib.metadata.packages_distributions()


def _file_of(module: str) -> str | None:
    """Where a module lies; None for one without a file, such as what is typed at a prompt."""
    if not module:
        return None
    loaded = sys.modules.get(module)
    if loaded is not None:
        places = [getattr(loaded, "__file__", None), *getattr(loaded, "__path__", ())]
    else:
        spec = importlib.util.find_spec(top_of(module))
        places = [spec.origin, *(spec.submodule_search_locations or ())] if spec else []
    return next((place for place in places if place), None)
