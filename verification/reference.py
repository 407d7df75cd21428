"""Write the reference pages from the code: settings, commands, errors. `--check` compares instead."""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from rekindle import errors
from rekindle.cli.boundary import exit_code
from rekindle.cli.main import group
from rekindle.cli.next_command import lines_of
from rekindle.cli.registry import COMMANDS
from rekindle.cli.typed import begin, learn
from rekindle.config import SETTINGS, SPARK_PREFIX, Setting
from rekindle.remedies import StartRemedy, in_python

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
MADE = "<!-- made by `make reference` from the code; do not edit -->"


def configuration() -> str:
    rows = "\n".join(map(_setting, SETTINGS))
    return f"""{MADE}
# Configuration

A setting has one key. Where several places give it a value, the later one in this order wins:

1. its default
2. `rekindle.toml`: the file that `--config` or the variable `REKINDLE_CONFIG` names, else the nearest one from the
   current folder upwards
3. the environment
4. Spark's properties, `{SPARK_PREFIX}<key>`
5. flags: `--location`, `--storage KEY=VALUE`, and `--set KEY=VALUE` for every setting

A `rekindle.toml` that was found, and not named, must belong to you or to root, and not everybody may be able to write
it; another one is refused, and `--config FILE` says that you trust it. One above the current folder is named on stderr.

`rekindle doctor` prints every setting as resolved, and where its value came from. A key that does not exist, or a value
without meaning, is refused with its place (RK101). A run records its limits when it starts: a later change does not
reach it.

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
| `storage.*` | `REKINDLE_STORAGE_*` | text | | how to reach the store, as obstore calls it: `endpoint`, `region`, … |

A flag can be seen by everybody on the same machine: give secrets by the environment, or let the store find its own.
`NO_COLOR` switches colours off, `COLUMNS` fixes the width of tables, `JAVA_HOME` is where `doctor` looks for Java.
"""


def commands() -> str:
    context = group.make_context("rekindle", [], resilient_parsing=True)
    parts = "\n\n".join(f"## rekindle {name}\n\n{_help(name, context)}" for name in COMMANDS)
    return f"""{MADE}
# Commands

```
{_plain(group, context)}
```

What does not need Spark does not start it: only `plan`, `run`, `resume`, `reproduce`, `check` and `verify` do.

| exit code | meaning |
| --- | --- |
| 0 | done; for `plan`: nothing to do |
| 1 | failed, and the same command would not help |
| 2 | `plan`: there is work; `check`, `verify`: something differs |
| 3 | refused: nothing was done, and the message says why |
| 4 | failed, and resumable: what is kept is reused when the same command is typed again |
| 130 | interrupted |

{parts}
"""


def failures() -> str:
    begin(group, ["run", "PIPELINE"])
    learn(run="RUN")
    rows = "\n\n".join(map(_error, _errors()))
    return f"""{MADE}
# Errors

Every error is printed as `error RKnnn: what happened` and `next: what to type`. Codes are stable: a script may match on
them for ever. Anything without a code is a fault of Rekindle's, or an exception of your own code outside of a step: it
is printed as one line, with the full trace in a file whose path is printed. In Python all of them are kinds of
`rekindle.RekindleError`, with `code`, `message` and `hint`, which names options of `rk.RunOptions`.

What is printed after `next:` is a whole command, one line for each thing that can be done. It carries the options that
you typed and that it takes: `--location`, `--storage`, `--set`, `--config`, `--master`, `--conf`, `--param`. A secret
is not printed: a variable stands for it, as in `--conf a.password="${{A_PASSWORD:?}}"`, and your shell refuses the
command until that variable is set. If a variable of your environment holds the secret, it is that one.

{rows}
"""


PAGES = {"configuration.md": configuration, "cli.md": commands, "errors.md": failures}


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
