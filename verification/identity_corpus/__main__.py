"""`make identity-corpus`: is the same code the same elsewhere, and is changed code changed, by name?

Each program is loaded by three processes: as it is; as it is in another folder, with another hash seed, home, user and
environment; and with its change. Some are also run to the end: a failure, the change, and a new driver that resumes,
and every row must be by the new code. Prints a `RESULT` line; exit 0 only if both shares are 1.0 over 60 changes or
more.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from identity_corpus import ends
from identity_corpus.every import PROGRAMS
from identity_corpus.of_plans import JAVA
from identity_corpus.programs import Program
from rekindle.master.rules.opening import changed_parts
from rekindle.pipeline.identity.changes import describe_change

KINDS_MIN = 60
ROOT = Path(__file__).parent.parent.parent
ELSEWHERE = {
    "USER": "somebody",
    "LOGNAME": "somebody",
    "LANG": "C.UTF-8",
    "CORPUS_OTHER": "yes",
    "PYTHONHASHSEED": "77",
}
HERE = {"PYTHONHASHSEED": "1"}


def write(folder: Path, value: str, programs: Sequence[Program]) -> None:
    for program in programs:
        home = folder / program.name
        home.mkdir(parents=True)
        for name, text in program.files(value).items():
            (home / name).write_text(text)
            if name.endswith(".c"):
                _compile(home / name)


def _compile(source: Path) -> None:
    is_module = "Python.h" in source.read_text()
    suffix = sysconfig.get_config_var("EXT_SUFFIX") if is_module else ".so"
    include = [f"-I{sysconfig.get_paths()['include']}"] if is_module else []
    command = ["cc", "-shared", "-fPIC", "-O1", *include, "-o", str(source.with_suffix("")) + suffix, source.name]
    subprocess.run(command, check=True, cwd=source.parent)
    source.unlink()


def jar_of(folder: Path, value: str) -> Path:
    """The Java of the corpus, in a jar of the same name with classes of the same names."""
    sources = folder / "corpus"
    sources.mkdir(parents=True)
    for name, text in JAVA.items():
        (sources / f"{name}.java").write_text(f"package corpus; {text}".replace("§", value))
    jars = Path(str(__import__("pyspark").__file__)).parent / "jars"
    made = folder / "made"
    subprocess.run(
        ["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(made), *map(str, sources.glob("*.java"))], check=True
    )
    return Path(shutil.make_archive(str(folder / "corpus"), "zip", made)).rename(folder / "corpus.jar")


def asked(folder: Path, jar: Path, more: Mapping[str, str], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What one process says of each program."""
    paths = [str(ROOT / one) for one in ("src", "tests", "verification")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **more}
    command = [sys.executable, "-m", "identity_corpus.driver", str(folder), str(jar), *names]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise SystemExit(f"a process of the corpus failed:\n{done.stderr[-4000:]}")
    return {line["name"]: line for line in lines}


def judged(program: Program, first: Mapping[str, Any], again: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What is wrong with a program: nothing, if the list is empty."""
    for said in (first, again, after):
        if "error" in said:
            return [said["error"]]
    wrong = [f"unchanged, and said: {one}" for one in describe_change(first["parts"], again["parts"])]
    if not program.has_change:
        return wrong
    parts = changed_parts(first["parts"], after["parts"])
    if not any(part.startswith(program.part) for part in parts):
        wrong.append(f"changed, and seen are {parts or 'no parts'}; wanted {program.part}")
    return wrong


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="names of programs; none of the runs to the end")
    parser.add_argument("--no-ends", action="store_true", help="fingerprints only")
    options = parser.parse_args(arguments)
    programs = [one for one in PROGRAMS if not options.only or one.name in options.only]
    with tempfile.TemporaryDirectory(prefix="identity-corpus-") as made:
        root = Path(made)
        folders = root / "first" / "project", root / "second" / "home" / "of" / "another", root / "third" / "project"
        for folder, value in zip(folders, "112", strict=True):
            write(folder, value, programs)
        jars = [jar_of(root / f"jar{number}", value) for number, value in enumerate("112")]
        home = root / "somebody"
        home.mkdir()
        elsewhere = {**ELSEWHERE, "HOME": str(home), "TMPDIR": str(home)}
        said = [
            asked(folder, jar, more, options.only)
            for folder, jar, more in zip(folders, jars, (HERE, elsewhere, HERE), strict=True)
        ]
        wrong = {one.name: judged(one, *(each[one.name] for each in said)) for one in programs}
        to_the_end = {} if options.only or options.no_ends else ends.run(root)
    return report(programs, wrong, to_the_end)


def report(programs: Sequence[Program], wrong: Mapping[str, list[str]], to_the_end: Mapping[str, str]) -> int:
    for name, lines in wrong.items():
        for line in lines:
            print(f"{name}: {line}")
    for name, line in to_the_end.items():
        print(f"to the end, {name}: {line or 'all rows by the new code'}")
    changed = [one for one in programs if one.has_change]
    unseen = [one for one in changed if any(not line.startswith("unchanged") for line in wrong[one.name])]
    moved = [one for one in programs if any(not line.startswith("changed") for line in wrong[one.name])]
    failed = [name for name, line in to_the_end.items() if line]
    unchanged_seen = 1 - len(moved) / len(programs)
    changed_seen = 1 - (len(unseen) + len(failed)) / max(1, len(changed) + len(to_the_end))
    print(
        f"RESULT identity programs={len(programs)} kinds_of_change={len(changed)} to_the_end={len(to_the_end)} "
        f"unchanged_seen={unchanged_seen:.3g} changed_seen={changed_seen:.3g}"
    )
    is_right = not any(wrong.values()) and not failed and len(changed) >= KINDS_MIN
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
