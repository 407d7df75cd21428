"""Two fingerprints of one kept step, compared: a sentence for each part that is not the same."""

from __future__ import annotations

from collections.abc import Mapping

from rekindle.master.rules.opening import changed_parts, part_kind

HASH = "#"
CODE_KINDS = frozenset({"code", "helper", "udf"})
VALUE_KINDS = {
    "constant": "the constant",
    "closure": "the closed-over",
    "default": "the default of",
    "attribute": "the attribute",
}
# What an attribute is, if its name begins with one of these and a space: see pipeline/identity/fingerprint.py.
FOUND_LATER = frozenset({"helper", "constant", "closure", "default", "package"})
NAMED_BY_CODE = frozenset({"code", "helper", "package", "compiled", "environment", "unjudged", *VALUE_KINDS})


def describe_change(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """What changed, part by part; empty if nothing did."""
    changed = list(changed_parts(dict(old), dict(new)))
    if _release(old) != _release(new):
        # Another Python compiles the same code to something else: its text says nothing.
        changed = [part for part in changed if part_kind(part) not in CODE_KINDS]
    if any(part_kind(part) in NAMED_BY_CODE for part in changed):
        # What Spark is given changed with it, and tells less.
        changed = [part for part in changed if part_kind(part) != "udf"]
    return [_sentence(part, old.get(part, ""), new.get(part, "")) for part in changed]


def _release(fingerprint: Mapping[str, str]) -> str:
    return fingerprint.get("python", "").rpartition(".")[0]


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
        case "attribute" if name.partition(" ")[0] in FOUND_LATER:
            return _sentence(f"{step}.{name.replace(' ', ':', 1)}", old, new)
        case "helper":
            return f"{name}, which {step} uses, {_happened(old, new)}"
        case "constant" | "closure" | "default" | "attribute":
            return f"{VALUE_KINDS[kind]} {name} of {step} {_happened(old, new)}{_values(old, new)}"
        case "package":
            return f"package {name}, which {step} uses: {old or 'not used'} -> {new or 'not used'}"
        case "parameter":
            return f"the parameter {name} of {step} {_happened(old, new)}{_values(old, new)}"
        case "udf":
            return f"the Python function {name or 'without a name'} in the plan of {step} {_happened(old, new)}"
        case "jvm":
            return f"the Java or Scala function {name or 'without a name'} in the plan of {step} {_happened(old, new)}"
        case "compiled":
            return f"the file of the module {name}, which {step} uses, {_happened(old, new)}"
        case "environment":
            return f"the environment variable {name}, which {step} asks for, {_happened(old, new)}"
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
        case "seeds":
            return f"the seeds changed: {old or 'none'} -> {new or 'none'}"
        case "attribute:metadata":
            return f"the metadata of columns {_happened(old, new)}"
        case "names":
            return "the names of columns or tables changed"
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
