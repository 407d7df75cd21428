"""Two fingerprints of one kept step, compared: a sentence for each part that is not the same."""

from __future__ import annotations

from collections.abc import Mapping

HASH = "#"
CODE_KINDS = frozenset({"code", "helper"})
VALUE_KINDS = {"constant": "the constant", "closure": "the closed-over", "default": "the default of"}


def describe_change(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """What changed, part by part; empty if nothing did."""
    changed = sorted(part for part in old.keys() | new.keys() if old.get(part) != new.get(part))
    if _release(old) != _release(new):
        # Another Python compiles the same code to something else: its text says nothing.
        changed = [part for part in changed if _kind(part) not in CODE_KINDS]
    return [_sentence(part, old.get(part, ""), new.get(part, "")) for part in changed]


def _release(fingerprint: Mapping[str, str]) -> str:
    return fingerprint.get("python", "").rpartition(".")[0]


def _kind(part: str) -> str:
    return "" if part.startswith("spark.") else part.partition(".")[2].partition(":")[0]


def _sentence(part: str, old: str, new: str) -> str:
    if part.startswith("spark."):
        return f"{part}: {old or 'default'} -> {new or 'default'}"
    step, _, rest = part.partition(".")
    if not rest:
        return _of_the_group(part, old, new)
    kind, _, name = rest.partition(":")
    match kind:
        case "code":
            return f"the code of {step} changed"
        case "helper":
            return f"{name}, which {step} uses, {_happened(old, new)}"
        case "constant" | "closure" | "default":
            return f"{VALUE_KINDS[kind]} {name} of {step} {_happened(old, new)}{_values(old, new)}"
        case "package":
            return f"package {name}, which {step} uses: {old or 'not used'} -> {new or 'not used'}"
        case "parameter":
            return f"the parameter {name} of {step} {_happened(old, new)}{_values(old, new)}"
        case "unjudged":
            what = (new or old).partition(" ")[0]
            return f"{name} of {step} cannot be compared: it is a {what}; make it inside the function"
        case _:
            return f"{rest} of {step} {_happened(old, new)}"


def _of_the_group(part: str, old: str, new: str) -> str:
    match part:
        case "input":
            return f"the input changed{_values(_without_digest(old), _without_digest(new))}"
        case "python" | "pyspark" | "java":
            return f"{part}: {old or 'unknown'} -> {new or 'unknown'}"
        case _:
            return f"the {part} {_happened(old, new)}{_values(old, new)}"


def _happened(old: str, new: str) -> str:
    if not old:
        return "is new"
    return "changed" if new else "is gone"


def _values(old: str, new: str) -> str:
    """Both values, where they can be shown and tell more than that they differ."""
    is_shown = old and new and old != new and HASH not in (old[0], new[0])
    return f": {old} -> {new}" if is_shown else ""


def _without_digest(told: str) -> str:
    return " ".join(word for word in told.split() if len(word) != 16 or not _is_hex(word))


def _is_hex(word: str) -> bool:
    return set(word) <= set("0123456789abcdef")
