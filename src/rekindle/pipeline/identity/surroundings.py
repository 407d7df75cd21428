"""What a value owes to the machine and to the process it was made in: the folder its file lies in, and the environment.

- A path at or below the folder of the file, or up to two folders above it, counts by how it lies to the file: the same
  project in another folder, on another machine, is the same code. Only if the text of one of the user's files asks for
  `__file__`, and only for folders that no file of the user's has written out: a path that somebody wrote is data.
- The environment counts by the variables that are asked for by name; the whole of it is another one in every process.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path, PurePath
from typing import Any

from rekindle.pipeline.identity.packages import RUNS_STEPS, is_users_file, top_of
from rekindle.pipeline.identity.pickle_reader import UnbuiltObject

FOLDERS_ABOVE = 2
PARTS_MIN = 2  # The root and what lies in it directly are no folder of a project.
FILE_URL = re.compile(r"file:(//)?(?=/)")
VARIABLE = re.compile(r"_*[A-Za-z]\w*")
# Another one in every shell: they count only where the environment is asked for them at that place.
OF_THE_SHELL = frozenset({"SHLVL", "PWD", "OLDPWD"})
ASKS_ENVIRONMENT = frozenset({"environ", "getenv"})
SHARE_OF_ENVIRONMENT = 0.9
VARIABLES_MIN = 5


class Folders:
    """The folders by which paths are told, for one look at a function and all that it reaches."""

    def __init__(self) -> None:
        self._anchors: dict[str, list[tuple[str, str]]] = {}
        self._loaded: dict[str, str] | None = None

    def placed(self, text: str, file: str) -> str:
        """A path as seen from the folder of `file`; any other text as it is."""
        if "/" not in text and os.sep not in text:
            return text
        bare = FILE_URL.sub("", text, count=1) if text.startswith("file:") else text
        for folder, name in self._of(file):
            if bare == folder or bare.startswith((f"{folder}/", f"{folder}{os.sep}")):
                return f"{text[: len(text) - len(bare)]}{name}{bare[len(folder) :]}"
        return text

    def _of(self, file: str) -> list[tuple[str, str]]:
        if file not in self._anchors:
            self._anchors[file] = list(self._look(file))
        return self._anchors[file]

    def _look(self, file: str) -> Iterator[tuple[str, str]]:
        if not file or not is_users_file(file):
            return
        texts = self._users_texts() | {file: _text_of(file, _changed_ns(file))}
        if not any("__file__" in text for text in texts.values()):
            return
        name = "<folder of the file>"
        seen = set[str]()
        for path in dict.fromkeys((str(Path(file).absolute()), str(Path(file).resolve()))):
            for number, folder in enumerate([*PurePath(path).parents][: FOLDERS_ABOVE + 1]):
                is_written = any(str(folder) in text for text in texts.values())
                if len(folder.parts) > PARTS_MIN and not is_written and str(folder) not in seen:
                    seen.add(str(folder))
                    yield str(folder), f"{name}{'/..' * number}"

    def _users_texts(self) -> dict[str, str]:
        if self._loaded is None:
            files = {
                str(module.__file__)
                for name, module in list(sys.modules.items())
                if getattr(module, "__file__", None) and top_of(name) not in RUNS_STEPS
            }
            users = [file for file in files if file.endswith(".py") and is_users_file(file)]
            self._loaded = {file: _text_of(file, _changed_ns(file)) for file in users}
        return self._loaded


def environment(names: Iterable[str], asked: Collection[str]) -> dict[str, str]:
    """The variables that are set, of those that may be asked for and those that are asked for directly."""
    wanted = (name for name in names if VARIABLE.fullmatch(name) and (name not in OF_THE_SHELL or name in asked))
    return {name: os.environ[name] for name in wanted if name in os.environ}


def is_environment(value: Any) -> bool:
    """The environment of the process, or a copy of all of it, as it is or as it was packed."""
    if type(value) is type(os.environ) or (type(value) is UnbuiltObject and value.maker is type(os.environ)):
        return True
    return type(value) is dict and _is_copy(value)


def _is_copy(value: Mapping[Any, Any]) -> bool:
    if len(value) < VARIABLES_MIN or len(value) < SHARE_OF_ENVIRONMENT * len(os.environ):
        return False
    texts = ((name, held) for name, held in value.items() if type(name) is str and type(held) is str)
    same = sum(os.environ.get(name) == held for name, held in texts)
    return bool(same >= SHARE_OF_ENVIRONMENT * len(value))


def _changed_ns(file: str) -> int:
    try:
        return Path(file).stat().st_mtime_ns
    except OSError:
        return 0


@cache
def _text_of(file: str, changed_ns: int) -> str:
    try:
        return Path(file).read_text(errors="replace")
    except OSError:
        return ""
