"""Write the reference pages from the code: settings, commands, errors, Python. `--check` compares instead."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

import rekindle
from rekindle import errors
from rekindle.api import StepOptions
from rekindle.cli.boundary import exit_code
from rekindle.cli.main import group
from rekindle.cli.next_command import lines_of
from rekindle.cli.registry import COMMANDS
from rekindle.cli.typed import begin, learn
from rekindle.config import SETTINGS, SPARK_PREFIX, Setting
from rekindle.master.facts.config import MasterConfig
from rekindle.remedies import StartRemedy, in_python

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
NIGHTLY = Path(__file__).parent / "nightly"
LINE_MAX = 100
MADE = "<!-- made by `make reference` from the code; do not edit -->"


def configuration() -> str:
    rows = "\n".join(map(_setting, SETTINGS))
    return f"""{MADE}
# Configuration

Each setting has one key. If several places set it, the last one in this order wins:

1. its default
2. `rekindle.toml`: the file that `--config` or the variable `REKINDLE_CONFIG` names, else the nearest one from the
   current folder upwards
3. the environment
4. Spark's properties, `{SPARK_PREFIX}<key>`
5. flags: `--location`, `--storage KEY=VALUE`, and `--set KEY=VALUE` for every setting

A `rekindle.toml` that Rekindle found itself must belong to you or to root and must not be world-writable; any other
file is refused, unless you name it with `--config FILE`. If it is above the current folder, its path is printed to
stderr.

`rekindle doctor` prints every setting as resolved, and where its value came from. An unknown key
or an invalid value is refused (RK101), and the message names the place. A run records its limits when it starts: later
changes do not affect it.

```toml
# rekindle.toml
location = "s3a://lake/rekindle"     # a relative path is relative to this file

[storage]
endpoint = "http://localhost:9000"
region = "eu-central-1"

[failover]
strategy = "region"

[backoff]
kind = "exponential"
attempts_max = 10
```

| key | variable | what it is | default | meaning |
| --- | --- | --- | --- | --- |
{rows}
| `storage.*` | `REKINDLE_STORAGE_*` | text | | of obstore: `endpoint`, `region`, …; of HDFS: `webhdfs`, `user` |

Every user of the same machine can see command-line flags: pass secrets in environment variables, or let the storage
client find its own credentials. `NO_COLOR` switches colours off, `COLUMNS` sets the width of tables, and `doctor` looks
for Java in `JAVA_HOME`.
"""


def commands() -> str:
    context = group.make_context("rekindle", [], resilient_parsing=True)
    parts = "\n\n".join(f"## rekindle {name}\n\n{_help(name, context)}" for name in COMMANDS)
    return f"""{MADE}
# Commands

```
{_plain(group, context)}
```

Only `plan`, `run`, `resume`, `reproduce`, `check` and `verify` start Spark.

| exit code | meaning | does a retry help? |
| --- | --- | --- |
| 0 | done; for `plan`: nothing to do | |
| 1 | failed, and cannot be resumed | no |
| 2 | `plan`: there is work; `check`, `verify`: something differs | no |
| 3 | refused, by Rekindle or by the storage: somebody must act, and the message says how | no, but for `RK124` and \
`RK200`: another process has the run |
| 4 | failed but resumable: the same command reuses what is kept | yes, if the cause passes by itself: lost executors, \
a storage that does not answer. A step that fails on its data fails again, at the cost of those partitions |
| 5 | done before, but code, inputs or targets changed since; nothing was computed | no |
| 130 | interrupted | yes |

A process that a signal ended (137, 143: killed, out of memory) has no code of Rekindle: the same command resumes the
run.

{parts}
"""


def failures() -> str:
    begin(group, ["run", "PIPELINE"])
    learn(run="RUN")
    rows = "\n\n".join(map(_error, _errors()))
    return f"""{MADE}
# Errors

Every error is printed as `error RKnnn: what happened` and `next: what to type`. Codes are stable: scripts may
match on them. An error without a code is a bug in Rekindle, or an exception of your own code outside of a step: it is
printed as one line, with the path of a file that holds the full trace. In Python, all errors are subclasses of
`rekindle.RekindleError`, with `code`, `message` and `hint`, which names options of `rk.RunOptions`.

After `next:` stands a whole command, one line for each thing that you can do. It carries the options that you typed and
that it takes: `--location`, `--storage`, `--set`, `--config`, `--master`, `--conf`, `--param`. A secret is not printed:
a variable stands for it, as in `--conf a.password="${{A_PASSWORD:?}}"`, and your shell refuses the command until that
variable is set. If a variable of your environment holds the secret, Rekindle prints that one.

{rows}
"""


def python() -> str:
    """Every public name with all its parameters, grouped as users meet them."""
    named = {name: getattr(rekindle, name) for name in rekindle.__all__ if not name.startswith("__")}
    raised = {name for name, one in named.items() if inspect.isclass(one) and issubclass(one, errors.RekindleError)}
    parts = [_public(f"rk.{name}", one) for name, one in named.items() if name not in raised]
    parts += [_public("StepOptions", StepOptions), _public("MasterConfig", MasterConfig)]
    told, listed = ", ".join(f"`rk.{name}`" for name in sorted(raised)), "\n\n".join(parts)
    return f"""{MADE}
# Python

`import rekindle as rk`. Everything that is public stands here, with every parameter. Options of `source`, `step` and
`sink` are those of [StepOptions](#stepoptions). [Errors](errors.md) that can be caught by name:

{told}

{listed}
"""


def _public(name: str, one: object) -> str:
    if not inspect.isclass(one):
        return f"## {name}\n\n```python\n{name}{_signature(one)}\n```\n\n{_told(one)}"
    fields = [line for field, kind in inspect.get_annotations(one).items() if (line := _field(one, field, kind))]
    listed = "```python\n" + "\n".join(fields) + "\n```\n\n" if fields else ""
    methods = [
        f"### {name}.{inner}\n\n```python\n{inner}{_signature(method)}\n```\n\n{_told(method)}"
        for inner, method in vars(one).items()
        if not inner.startswith("_") and inspect.isfunction(method)
    ]
    return "\n\n".join((f"## {name}\n\n{listed}{_told(one)}", *methods))


def _field(one: type, field: str, kind: object) -> str:
    if field.startswith("_"):
        return ""
    default = next((known.default for known in _fields(one) if known.name == field), inspect.Parameter.empty)
    is_plain = isinstance(default, str | int | float | bool | tuple) or default is None
    return f"{field}: {getattr(kind, '__forward_arg__', kind)}" + (f" = {_shown(default)}" if is_plain else "")


def _shown(default: object) -> str:
    """As it would be written in code."""
    return json.dumps(default) if isinstance(default, str) else getattr(default, "__name__", repr(default))


def _fields(one: type) -> Iterable[Any]:
    if dataclasses.is_dataclass(one):
        return dataclasses.fields(one)
    return msgspec.structs.fields(one) if issubclass(one, msgspec.Struct) else ()


def _signature(one: object) -> str:
    """In one line where it fits, else a line for each parameter."""
    assert callable(one)
    found = inspect.signature(one)
    parameters = [_parameter(each) for name, each in found.parameters.items() if name != "self"]
    if any(each.kind is each.KEYWORD_ONLY for each in found.parameters.values()) and not any(
        each.kind is each.VAR_POSITIONAL for each in found.parameters.values()
    ):
        at = next(i for i, each in enumerate(found.parameters.values()) if each.kind is each.KEYWORD_ONLY)
        parameters.insert(at - ("self" in found.parameters), "*")
    line = f"({', '.join(parameters)})"
    return line if len(line) <= LINE_MAX else "(\n" + "".join(f"    {each},\n" for each in parameters) + ")"


def _parameter(one: inspect.Parameter) -> str:
    stars = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
    kind = f": {one.annotation}" if one.annotation is not one.empty else ""
    return f"{stars}{one.name}{kind}" + (f" = {_shown(one.default)}" if one.default is not one.empty else "")


def _told(one: object) -> str:
    """What the code says of it: sentences as they are, lists of names as they stand."""
    text = inspect.getdoc(one) or ""
    parts = text.split("\n\n")
    is_list = [any(re.match(r"\w[\w, ]*   +\S", line) for line in part.splitlines()) for part in parts]
    made = [f"```text\n{part}\n```" if listed else part for part, listed in zip(parts, is_list, strict=True)]
    return "\n\n".join(made)


def three_ways() -> str:
    """The nightly ETL as a plain script, with the on-ramp and as a pipeline: the files that `make nightly` runs."""
    texts = {name: (NIGHTLY / f"{name}.py").read_text() for name in ("plain", "onramp", "pipeline")}
    lines = {name: [line.strip() for line in text.splitlines() if line.strip()] for name, text in texts.items()}
    plain = lines["plain"]
    rows = "\n".join(
        f"| {told} | {len(lines[name])} | {_added(plain, lines[name])} | {_added(lines[name], plain)} |"
        for name, told in {"plain": "plain script", "onramp": "with the on-ramp", "pipeline": "as a pipeline"}.items()
    )
    return f"""{MADE}
# One ETL in three ways

A shop's nightly ETL: CSV and Parquet sources, a Python function for each row, pandas, a window, joins, a slowly
changing dimension, SQL, and five products. `make nightly` runs the pipeline on ten days with kills of the driver, a
corrected day, late data, and changes of code and schema, and the plain script beside it: what readers see of both is
the same ([report](../reports/nightly.md)). The plain script starts from zero whenever it dies, and has nobody who
notices that a day was done with other code.

| | lines of code | lines that the plain script does not have | lines of the plain script that are gone |
| --- | --- | --- | --- |
{rows}

Lines that are only indented differently count as the same.

## The plain script

```python
{texts["plain"]}```

## With the on-ramp

`run.keep` keeps one expensive DataFrame; everything above it is as it was.

```python
{texts["onramp"]}```

## As a pipeline

```python
{texts["pipeline"]}```
"""


def _added(before: list[str], after: list[str]) -> int:
    """How many lines are in `after` and not in `before`."""
    return (Counter(after) - Counter(before)).total()


PAGES = {
    "configuration.md": configuration,
    "cli.md": commands,
    "errors.md": failures,
    "python.md": python,
    "three-ways.md": three_ways,
}


def _setting(one: Setting) -> str:
    default = str(one.default).lower() if isinstance(one.default, bool) else str(one.default)
    least = f", at least {one.least:g}" if one.least is not None else ""
    return (
        f"| `{one.key}` | `{one.variable}` | {one.kind}{least} | {f'`{default}`' if default else ''} | {one.meaning} |"
    )


def _help(name: str, above: click.Context) -> str:
    command = importlib.import_module(COMMANDS[name].module).command
    assert isinstance(command, click.Command)
    context = command.make_context(name, [], parent=above, resilient_parsing=True)
    texts = [_plain(command, context)]
    if isinstance(command, click.Group):
        for inner, one in command.commands.items():
            texts.append(_plain(one, one.make_context(inner, [], parent=context, resilient_parsing=True)))
    return "\n\n".join(f"```\n{text}\n```" for text in texts)


def _plain(command: click.Command, context: click.Context) -> str:
    context.terminal_width = 100
    return "\n".join(line.rstrip() for line in command.get_help(context).splitlines())


def _errors() -> Iterator[type[errors.RekindleError]]:
    """All that can be raised: not their base."""
    found = [one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, errors.RekindleError)]
    return iter(sorted(found, key=lambda one: one.code)[1:])


def _error(one: type[errors.RekindleError]) -> str:
    above = one.__mro__[1]
    kind = "" if above is errors.RekindleError else f", a kind of {above.__name__}"
    meaning = " ".join((one.__doc__ or "").split())
    has_options = any(isinstance(remedy, StartRemedy) and remedy.options for remedy in one.advice)
    python = f"- In Python: {_joined(map(in_python, one.advice))}.\n" if has_options else ""
    return (
        f"## {one.code} {one.__name__}\n\n{meaning}\n\n"
        f"- What to do: {_joined(lines_of(one.advice))}.\n{python}- Exit code: {int(exit_code(one('')))}{kind}."
    )


def _joined(lines: Iterable[str]) -> str:
    """Remedies in one line, with commands as such."""
    found = re.compile(r"(?<![`\w])(rekindle .*|pip .*|rk\.\w+\([^)]*\)|SparkSession\.\S+\([^)]*\))")
    return "; ".join(found.sub(r"`\1`", line) for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="say which page is not what the code says")
    is_check = parser.parse_args().check
    FOLDER.mkdir(exist_ok=True)
    stale = [name for name, make in PAGES.items() if not _is_current(name, make())]
    if is_check:
        raise SystemExit(f"not current: {', '.join(stale)}; next: make reference" if stale else 0)
    for name, make in PAGES.items():
        (FOLDER / name).write_text(make())


def _is_current(name: str, text: str) -> bool:
    path = FOLDER / name
    return path.is_file() and path.read_text() == text


if __name__ == "__main__":
    main()
