"""Secrets, and everything else that a user typed, in what is printed.

- A value is hidden by the name it was given under (`is_secret`), and a password inside a URL by its place: printed is
  `(hidden)`.
- In a command that can be pasted, a variable of the shell stands in its place: one that the environment has with just
  that value, else one that is named after the option. `"${TOKEN:?}"` is refused by the shell while TOKEN is not set, so
  that no command runs with an empty secret.
- What was hidden once is hidden wherever it turns up in the output of this process, such as in the text of an error:
  not switches, numbers and names of classes, which stand there for other reasons. JSON stays JSON: there the texts
  inside of it are searched, one by one.
- `(hidden)` itself is refused as a value: it was copied from a line that Rekindle printed.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from rekindle.config import (
    HIDDEN,
    PASSWORD,
    PREFIX,
    STORAGE,
    Config,
    is_open,
    is_secret,
    may_show,
    variable_with,
    without_passwords,
)
from rekindle.errors import ConfigRefused
from rekindle.remedies import StartRemedy

# A shorter value is found inside of words that have nothing to do with it.
KNOWN_LEAST = 4
# The same where no name says that it is a secret; plain words and paths are not searched for.
UNNAMED_LEAST = 8
PLAIN = re.compile(r"[a-z_-]+|/.*")
SCHEME = re.compile(r"(?:bearer|basic)\s+", re.IGNORECASE)

_known: set[str] = set()


def forget() -> None:
    """Before a command begins: secrets of the one before it, in the same process, are not its own."""
    _known.clear()


def remember(config: Config | None = None, conf: Iterable[tuple[str, str]] = ()) -> None:
    """Hide the secrets among these settings and Spark properties from now on; of the options of the store all that may
    not be shown."""
    stored = config.storage if config is not None else {}
    for name, value in (*stored.items(), *conf):
        if is_secret(name, value):
            _learn(value, KNOWN_LEAST)
    for name, value in stored.items():
        if not may_show(name) and not PLAIN.fullmatch(value):
            _learn(value, UNNAMED_LEAST)


def _learn(value: str, least: int) -> None:
    """Without the word for its kind as well: an error may have it alone."""
    for one in (value, SCHEME.sub("", value)):
        if len(one) >= least and not is_open(one):
            _known.add(one)


def without_secrets(text: str) -> str:
    """The text without the secrets that are known, and without passwords in URLs."""
    for value in sorted(_known, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return without_passwords(text)


def json_without_secrets(made: str | bytes, *, indent: int | None = 2) -> str:
    """The same JSON, indented, or in one line. Its texts are without secrets; the names in it and everything else
    stay."""
    return json.dumps(_texts(json.loads(made)), indent=indent, ensure_ascii=False)


def _texts(value: Any) -> Any:
    match value:
        case str():
            return without_secrets(value)
        case dict():
            return {name: _texts(one) for name, one in value.items()}
        case list():
            return [_texts(one) for one in value]
        case _:
            return value


def refuse_hidden(option: str, name: str, value: str) -> None:
    if HIDDEN in value:
        raise ConfigRefused(
            f"{option} {name}={HIDDEN} is what Rekindle prints instead of the value",
            StartRemedy(to="give it by a variable"),
        )


@dataclass(frozen=True, slots=True)
class Variable:
    """Stands for a secret in a command. `is_set` if the environment of this process has it."""

    name: str
    is_set: bool

    @property
    def shown(self) -> str:
        return f'"${{{self.name}:?}}"'


# A word of a command line: texts and variables, one after the other without a space.
Word = tuple[str | Variable, ...]
# Options whose value is a pair, and what stands before the name of a secret among them, in the name of its variable.
PAIRS = {"--storage": f"{PREFIX}STORAGE_", "--set": PREFIX, "--conf": "", "--param": ""}


def word_of(option: str, text: str) -> Word:
    """The value of an option as it can be typed again."""
    if option not in PAIRS:
        return tuple(_without_password(option.lstrip("-"), text))
    name, _, value = text.partition("=")
    if _may_print(option, name, value):
        return (f"{name}=", *_without_password(name.removeprefix(STORAGE), value))
    return f"{name}=", _variable(value, PAIRS[option] + name)


def quoted(word: Word) -> Iterator[str | Variable]:
    """The same for a shell."""
    if not any(word):
        yield shlex.quote("")
    for part in word:
        if part:
            yield shlex.quote(part) if isinstance(part, str) else part


def _may_print(option: str, name: str, value: str) -> bool:
    is_stored = option == "--storage" or (option == "--set" and name.startswith(STORAGE))
    if not is_stored:
        return not is_secret(name, value)
    option = name.removeprefix(STORAGE)
    return may_show(option) or (is_open(value) and not is_secret(option, value))


def _without_password(name: str, text: str) -> Iterator[str | Variable]:
    end = 0
    for found in PASSWORD.finditer(text):
        user, password = found[0][:-1].split(":", 1)
        yield f"{text[end : found.start()]}{user}:"
        yield _variable(password, f"{name}_PASSWORD")
        end = found.end() - 1
    yield text[end:]


def _variable(value: str, name: str) -> Variable:
    known = variable_with(value)
    return Variable(known or re.sub("[^A-Z0-9_]", "_", name.upper()), bool(known))
