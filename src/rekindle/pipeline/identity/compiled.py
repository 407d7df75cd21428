"""Helpers of which the bytes of their file count: those that were compiled (C, Cython, Rust), because nobody can read
what they do, and modules that are not loaded, because looking must not run them."""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import sys
from functools import cache
from pathlib import Path
from typing import Any

from rekindle.pipeline.identity.packages import is_users_file, is_users_module

SUFFIXES = tuple(importlib.machinery.EXTENSION_SUFFIXES)


def compiled_module(name: str) -> str:
    """The hash of the file of a compiled module of the user's own; empty for any other module."""
    file = str(getattr(sys.modules.get(name), "__file__", None) or "")
    return hash_of(file) if file.endswith(SUFFIXES) and is_users_module(name) else ""


def file_of_module(name: str) -> str:
    """Where a module that is not loaded lies, found without importing the packages above it; empty if nowhere."""
    path: list[str] | None = None
    full, file = "", ""
    for part in name.split("."):
        full = f"{full}.{part}".lstrip(".")
        try:
            spec = (
                importlib.util.find_spec(full) if path is None else importlib.machinery.PathFinder.find_spec(full, path)
            )
        except (ImportError, ValueError):
            return ""
        if spec is None:
            return ""
        file, path = str(spec.origin or ""), list(spec.submodule_search_locations or ())
    return file if Path(file).is_file() else ""


def compiled_library(value: Any) -> str:
    """The hash of the file of a library that `ctypes` loaded by its path; its name if the system found it."""
    path = str(getattr(value, "_name", ""))
    return hash_of(path) if Path(path).is_file() and is_users_file(path) else path


def hash_of(path: str) -> str:
    status = Path(path).stat()
    return _hash(path, status.st_mtime_ns, status.st_size)


@cache
def _hash(path: str, changed_ns: int, size: int) -> str:
    return f"#{hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]}"
