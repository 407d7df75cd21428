"""Every command that is told next can be pasted: it parses, and it carries what was typed, but no secret."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest

from cli.calling import call
from cli.test_error_classes import ON_SPARK, ROWS, Scene
from doubles.user import Typed
from doubles.user import user as user
from rekindle import errors
from rekindle.cli import hidden, next_command
from rekindle.cli.boundary import guarded
from rekindle.cli.main import group
from rekindle.cli.next_command import line_of, lines_of, unset
from rekindle.cli.registry import COMMANDS
from rekindle.cli.typed import begin, learn
from rekindle.config import PREFIX
from rekindle.remedies import CommandRemedy, Remedy, StartKind, StartRemedy, TextRemedy, new_run

SECRET = "TOPSECRET"
COMMAND = re.compile(r"rekindle (?:" + "|".join(COMMANDS) + r")\b[^`\n]*")


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    hidden.forget()
    begin(group, [])


def typed_options(folder: Path) -> list[str]:
    """As a user gives them who needs all of them."""
    file = folder / "other settings.toml"
    file.write_text("[backoff]\nkind = 'none'\n")
    return [
        *("--config", str(file), "--set", "lease.stale_seconds=20"),
        *("--storage", "region=r1", "--storage", f"secret_access_key={SECRET}"),
        *("--storage", f"endpoint=http://me:{SECRET}@host:9000"),
        *("--master", "local[2]", "--conf", "spark.executor.memory=2g"),
        *("--conf", f"spark.hadoop.fs.s3a.secret.key={SECRET}"),
    ]


def commands_in(text: str) -> list[str]:
    return [found[0] for found in COMMAND.finditer(text)]


def parsed(line: str) -> tuple[click.Command, dict[str, object]]:
    """What the command line itself makes of a command; a usage error fails the test."""
    program, *words = shlex.split(line)
    assert program == "rekindle"
    command: click.Command = group
    above: click.Context | None = None
    while isinstance(command, click.Group):
        above = click.Context(command, parent=above, **command.context_settings)
        found = command.get_command(above, words.pop(0))
        assert found is not None, line
        command = found
    return command, command.make_context("rekindle", list(words), parent=above).params


# Name of the option in the code of a command, and what must come back of it.
WANTED: dict[str, object] = {
    "set_": ("lease.stale_seconds=20",),
    "storage": (
        "region=r1",
        "secret_access_key=${REKINDLE_STORAGE_SECRET_ACCESS_KEY:?}",
        "endpoint=http://me:${ENDPOINT_PASSWORD:?}@host:9000",
    ),
    "master": "local[2]",
    "conf": ("spark.executor.memory=2g", "spark.hadoop.fs.s3a.secret.key=${SPARK_HADOOP_FS_S3A_SECRET_KEY:?}"),
}


def missing(line: str, folder: Path, given: Sequence[str], location: str) -> list[str]:
    """What was given, and is not in the next command although it takes it."""
    command, values = parsed(line)
    is_here = command.name == "reproduce"  # Its Spark is one of this machine.
    wanted = {
        **WANTED,
        "master": None if is_here else WANTED["master"],
        "config": str(folder / "other settings.toml"),
        "location": location,
    }
    flags = {one.name: one.opts[0] for one in command.params if isinstance(one, click.Option)}
    return [
        str(flags[name])
        for name, value in wanted.items()
        if name in flags and flags[name] in (*given, "--location") and not _holds(values[name], value)
    ]


def _holds(found: object, wanted: object) -> bool:
    if isinstance(found, tuple) and isinstance(wanted, tuple):
        return set(wanted) <= set(found)
    return found == wanted


class Careful(Typed):
    """Gives every option to every command that takes it, and looks at each command that comes back."""

    seen: list[str]
    folder: Path

    def types(self, command: str, *words: str) -> int:
        taken = importlib.import_module(COMMANDS[command].module).command.params
        flags = {flag for one in taken for flag in one.opts}
        words_typed = typed_options(self.folder)
        pairs = zip(words_typed[::2], words_typed[1::2], strict=True)
        given = [word for pair in pairs if pair[0] in flags for word in pair]
        ended = super().types(command, *given, *words)
        said = self.out + self.err
        assert SECRET not in said, said
        for line in commands_in(said):
            self.seen.append(line)
            assert missing(line, self.folder, given, self._location) == [], line
        return ended


@pytest.fixture
def careful(user: Typed, tmp_path: Path) -> Careful:
    user.__class__ = Careful
    assert isinstance(user, Careful)
    user.seen, user.folder = [], tmp_path
    return user


# These say all that can be done in a sentence.
WITHOUT_A_COMMAND = (
    errors.ConfigRefused,
    errors.GraphRefused,
    errors.ParameterRefused,
    errors.StoreRefused,
    errors.AppendUnknown,
    errors.JournalRefused,
    errors.NewerJournal,
)


@pytest.mark.parametrize("kind", [kind for kind in ROWS if kind not in ON_SPARK], ids=lambda kind: kind.__name__)
def test_what_is_told_with_every_error_can_be_pasted(
    kind: type[errors.RekindleError],
    careful: Careful,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    ROWS[kind].lead(Scene(careful, tmp_path, monkeypatch, request))
    assert f"error {kind.code}" in careful.err and "\nnext: " in careful.err
    assert careful.seen or kind in WITHOUT_A_COMMAND


def test_what_other_commands_print_can_be_pasted(
    careful: Careful,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Not only errors: `show`, `runs`, `gc` and the others end with a command, too."""
    given = typed_options(tmp_path)
    given = given[: given.index("--master")]
    here = ["--location", str(tmp_path), *given]
    told = [*commands_in(call(capsys, "runs", *here).out), *commands_in(call(capsys, "show", *here).err)]
    ROWS[errors.RunFailed].lead(Scene(careful, tmp_path, monkeypatch, request))
    for words in (
        ["show"],
        ["show", "9"],
        ["explain", "counted[99]"],
        ["results", "pin", "1"],
        ["results", "release", "1"],
        ["results", "unpin", "1"],
        ["gc", "--dry-run", "--set", "gc.retention_hours=0", "--set", "gc.grace_hours=0"],
    ):
        said = call(capsys, *words, *here)
        assert SECRET not in said.out + said.err
        found = commands_in(said.out + said.err)
        told += found
        assert found or words[1] in ("pin", "unpin"), words
    assert [line for line in told if missing(line, tmp_path, given, str(tmp_path))] == []
    assert {line.split()[1] for line in told} >= {"run", "resume", "runs", "explain", "results", "gc"}


def test_a_command_without_what_was_typed_is_found_out(
    careful: Careful, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """The control: a face that forgets what was typed does not pass."""
    monkeypatch.setattr(next_command, "LASTING", ("location",))
    with pytest.raises(AssertionError, match=r"rekindle re\w+ --location"):
        ROWS[errors.RunFailed].lead(Scene(careful, tmp_path, monkeypatch, request))
    (line, *_) = careful.seen
    given = typed_options(tmp_path)
    assert set(missing(line, tmp_path, given, str(tmp_path))) == set(given[::2])


def told(*remedies: Remedy) -> list[str]:
    return list(lines_of(remedies))


START = ["run", "--replace", "orders", "--force", "-p", "day=monday", "--master", "local[2]", "daily.py"]


def test_a_start_that_was_refused_is_typed_again_with_all_of_it() -> None:
    begin(group, START)
    assert told(StartRemedy(to="keep it", accept_change=("clean",))) == [
        "keep it: rekindle run --accept-change clean --param day=monday --replace orders --force --master 'local[2]' "
        "daily.py"
    ]
    assert told(StartRemedy(replace=("clean",), drops=("orders",))) == [
        "rekindle run --replace clean --param day=monday --force --master 'local[2]' daily.py"
    ]


def test_a_run_that_stopped_goes_on_without_what_was_said_about_its_start() -> None:
    begin(group, [*START, "--take-target", "daily", "--strategy", "full", "--set", "failover.strategy=full"])
    learn(run="7", parameters={"day": "monday"})
    assert told(StartRemedy(to="correct it, then", kind=StartKind.RESUME)) == [
        "correct it, then: rekindle resume --take-target daily --master 'local[2]' daily.py 7"
    ]
    assert told(StartRemedy(kind=StartKind.RESUME, without=("counted[2]",))) == [
        "rekindle resume --without 'counted[2]' --take-target daily --master 'local[2]' daily.py 7"
    ]


def test_a_new_run_has_the_parameters_of_the_old_one() -> None:
    begin(group, ["resume", "--location", "/x", "daily.py", "7"])
    learn(run="7", parameters={"day": "mon day", "token": SECRET})
    assert told(new_run()) == [
        "start a new run: rekindle run --new --location /x --param day='mon day' --param token=\"${TOKEN:?}\" daily.py"
    ]


def test_a_property_that_the_remedy_sets_is_not_given_twice() -> None:
    """The last one would count."""
    begin(group, ["run", "--conf", "a.b=true", "--conf", "c=1", "daily.py"])
    assert told(new_run(conf=(("a.b", "false"),))) == [
        "start a new run: rekindle run --new --conf a.b=false --conf c=1 daily.py"
    ]


@pytest.mark.parametrize("words", [["show", "daily/3"], ["runs", "daily"], ["results", "ls"], ["gc", "daily"]])
def test_who_named_no_file_is_told_where_it_stands(words: list[str]) -> None:
    begin(group, words)
    assert told(new_run()) == ["start a new run: rekindle run --new PIPELINE"]
    assert told(StartRemedy()) == [" ".join(["rekindle", *words])]


def test_the_master_of_a_run_is_not_that_of_a_look_on_this_machine() -> None:
    begin(group, ["run", "--master", "spark://host:7077", "--conf", "a=b", "daily.py"])
    learn(run="7")
    look = CommandRemedy("reproduce", vertex="counted[2]")
    assert told(look) == ["rekindle reproduce --conf a=b --run 7 daily.py 'counted[2]'"]
    begin(group, ["verify", "--master", "local[2]", "--pipeline", "daily.py", "7"])
    assert told(look) == ["rekindle reproduce --master 'local[2]' --run 7 daily.py 'counted[2]'"]
    assert told(new_run()) == ["start a new run: rekindle run --new daily.py"]


def test_a_plan_that_was_refused_is_followed_by_a_run() -> None:
    begin(group, ["plan", "--json", "-v", "--new", "daily.py"])
    assert told(StartRemedy(force=True)) == ["rekindle run --force --new daily.py"]


def test_a_supervised_driver_names_the_command_of_its_parent() -> None:
    begin(group, ["run", "--supervised", "5", "--as", "20260101T000000Z-aa", "daily.py"])
    assert told(StartRemedy(force=True)) == ["rekindle run --force --supervise daily.py"]


def test_the_command_that_was_typed_does_not_send_to_itself() -> None:
    begin(group, ["doctor"])
    assert told(*errors.StoreFailed.advice) == ["when it answers: rekindle doctor"]
    assert told(CommandRemedy("doctor")) == ["rekindle doctor"]


def test_what_is_no_command_is_told_in_words() -> None:
    begin(click.Command("other"), [])
    assert told(StartRemedy(), TextRemedy("restore it")) == ["type the same command again", "restore it"]
    begin(group, ["results"])
    assert told(CommandRemedy("runs")) == ["rekindle runs"]


def test_a_secret_that_the_environment_has_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("HOME_OF_IT", SECRET)
    begin(group, ["run", "--conf", f"spark.hadoop.fs.s3a.secret.key={SECRET}", "--storage", "token=other", "daily.py"])
    remedies = (StartRemedy(),)
    assert told(*remedies) == [
        'rekindle run --storage token="${REKINDLE_STORAGE_TOKEN:?}" '
        '--conf spark.hadoop.fs.s3a.secret.key="${AWS_SECRET_ACCESS_KEY:?}" daily.py'
    ]
    assert unset(remedies) == [f"{PREFIX}STORAGE_TOKEN"]


def test_the_shell_refuses_a_command_without_its_secret_and_puts_it_in_where_it_is_set() -> None:
    begin(group, ["run", "--conf", f"a.password={SECRET} x", "--location", f"http://m$e:{SECRET}@h/x", "da ily.py"])
    line = line_of(StartRemedy()).replace("rekindle", "printf '<%s>'", 1)
    refused = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    assert refused.returncode != 0 and "LOCATION_PASSWORD" in refused.stderr and refused.stdout == ""
    assert hidden.without_secrets(line) == line, "a variable is no password"
    secrets = {"LOCATION_PASSWORD": "l l", "A_PASSWORD": "a $b"}
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, env=secrets)
    assert done.stdout == "<run><--location><http://m$e:l l@h/x><--conf><a.password=a $b><da ily.py>"


@pytest.mark.parametrize("option", ["skip_signature=true", "region=r1", "timeout=30"])
def test_an_option_of_the_store_that_cannot_be_a_secret_is_printed(option: str) -> None:
    begin(group, ["runs", "--storage", option])
    assert told(StartRemedy()) == [f"rekindle runs --storage {option}"]


@pytest.mark.parametrize("words", [["nonsense"], ["--help"], [], ["run", "--nonsense", "x"], ["run"]])
def test_what_cannot_be_parsed_is_told_by_the_call_itself(words: list[str]) -> None:
    begin(group, words)
    assert guarded(group, words) in (0, 3)


def test_help_is_as_short_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    """A command remembers how its help is asked for: what looks at the words first must not change it."""
    for name in ("run", "results"):
        assert call(capsys, name, "-h").out.startswith(f"Usage: rekindle {name} ")
    assert call(capsys, "results", "ls", "-h").out.startswith("Usage: rekindle results ls ")


@pytest.mark.parametrize(
    ("words", "again"),
    [
        (["--set", "gc.batch"], "--set gc.batch=VALUE"),
        (["--storage", "region", "--storage", "bucket=b"], "--storage region=VALUE --storage bucket=b"),
        (["--param", "monday"], "--param day=2026-11-13"),
        (["--param", "day=1", "--param", "day=2"], "--param day=1"),
        (["--conf", "spark.a"], "--conf spark.a=64"),
    ],
)
def test_an_option_that_was_misspelt_is_corrected_in_the_whole_command(
    words: list[str], again: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = call(capsys, "plan", "--location", "/x", *words, "daily.py")
    assert said.code == 3
    [line] = commands_in(said.err)
    assert again in line and "--location /x" in line and line.endswith(" daily.py")
    assert parsed(line)
