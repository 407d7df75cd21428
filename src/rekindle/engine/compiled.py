"""Helpers that were compiled (C, Cython, Rust): nobody can read what they do, so the bytes of their file count."""

from __future__ import annotations

import hashlib
import importlib.machinery
import sys
from functools import cache
from pathlib import Path
from typing import Any

from rekindle.engine.installed import is_users_file, is_users_module

SUFFIXES = tuple(importlib.machinery.EXTENSION_SUFFIXES)


def compiled_module(name: str) -> str:
    """The hash of the file of a compiled module of the user's own; empty for any other module."""
    file = str(getattr(sys.modules.get(name), "__file__", None) or "")
    return hash_of(file) if file.endswith(SUFFIXES) and is_users_module(name) else ""


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
