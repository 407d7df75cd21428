"""Secrets, and everything else that a user typed, in what is printed.

- A value is hidden by the name it was given under (`is_secret`), and a password inside a URL by its place. Printed is
  `spark.hadoop.fs.s3a.secret.key=(hidden)`: the user has to give it again.
- What was hidden once is hidden wherever it turns up in the output of this process, such as in the text of an error:
  not switches, numbers and names of classes, which stand there for other reasons. JSON stays JSON: there the texts
  inside of it are searched, one by one.
- `(hidden)` itself is refused as a value: it was copied from a line that Rekindle printed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from rekindle.config import HIDDEN, Config, is_open, is_secret, may_show, without_passwords
from rekindle.errors import ConfigRefused

# A shorter value is found inside of words that have nothing to do with it.
KNOWN_LEAST = 4
# The same where no name says that it is a secret; plain words and paths are not searched for.
UNNAMED_LEAST = 8
PLAIN = re.compile(r"[a-z_-]+|/.*")
SCHEME = re.compile(r"(?:bearer|basic)\s+", re.IGNORECASE)
GIVE_AGAIN = f"where the next command says {HIDDEN}, give the value again: Rekindle does not print secrets"

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


def json_without_secrets(made: str | bytes) -> str:
    """The same JSON, indented. Its texts are without secrets; the names in it and everything else stay."""
    return json.dumps(_texts(json.loads(made)), indent=2, ensure_ascii=False)


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
            f"{option} {name}={HIDDEN} is what Rekindle prints instead of the value", f"{option} {name}=THE-VALUE"
        )


def property_words(conf: Iterable[tuple[str, str]]) -> list[str]:
    """Spark's properties as they can be typed again."""
    return [word for name, value in conf for word in ("--conf", f"{name}={_shown(name, value)}")]


def storage_word(name: str, value: str) -> str:
    """An option of the store as it can be typed again."""
    return f"{name}={without_passwords(value) if may_show(name) else HIDDEN}"


def typed_again(arguments: Sequence[str]) -> list[str]:
    """The words of a command line as they can be typed again."""
    return [_word(before, word) for before, word in zip(("", *arguments), arguments, strict=False)]


def _word(before: str, word: str) -> str:
    option, equals, pair = word.partition("=") if word.startswith("--") else (before, "=", word)
    name, has_value, value = pair.partition("=")
    if not (equals and has_value) or option not in ("--conf", "--storage", "--set"):
        return without_passwords(word)
    is_stored = option == "--storage" or name.startswith("storage.")
    shown = storage_word(name.removeprefix("storage."), value) if is_stored else f"{name}={_shown(name, value)}"
    shown = f"storage.{shown}" if is_stored and option == "--set" else shown
    return f"{option}={shown}" if word.startswith("--") else shown


def _shown(name: str, value: str) -> str:
    return HIDDEN if is_secret(name, value) else without_passwords(value)
