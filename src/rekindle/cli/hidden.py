"""Secrets, and everything else that a user typed, in what is printed.

- A value is hidden by the name it was given under (`is_secret`), and a password inside a URL by its place. Printed is
  `spark.hadoop.fs.s3a.secret.key=(hidden)`: the user has to give it again.
- What was hidden once is hidden wherever it turns up in the output of this process, such as in the text of an error.
- `(hidden)` itself is refused as a value: it was copied from a line that Rekindle printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rekindle.config import HIDDEN, Config, is_secret, may_show, without_passwords
from rekindle.errors import ConfigRefused

# A shorter value is found inside of words that have nothing to do with it.
KNOWN_LEAST = 4
GIVE_AGAIN = f"where the next command says {HIDDEN}, give the value again: Rekindle does not print secrets"

_known: set[str] = set()


def forget() -> None:
    """Before a command begins: secrets of the one before it, in the same process, are not its own."""
    _known.clear()


def remember(config: Config | None = None, conf: Iterable[tuple[str, str]] = ()) -> None:
    """Hide the secrets among these settings and Spark properties from now on."""
    for name, value in (*(config.storage.items() if config else ()), *conf):
        if is_secret(name, value) and len(value) >= KNOWN_LEAST:
            _known.add(value)


def without_secrets(text: str) -> str:
    """The text without the secrets that are known, and without passwords in URLs."""
    for value in sorted(_known, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return without_passwords(text)


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
