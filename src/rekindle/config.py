"""Every setting, in one frozen value: the only reader of the environment and of `rekindle.toml`.

- One order, later wins: default < `rekindle.toml` < environment `REKINDLE_*` < `spark.rekindle.*` < flags.
- A setting has one key, `failover.strategy`. In the file it is `strategy` of the table `[failover]`, in the environment
  `REKINDLE_FAILOVER_STRATEGY`, for Spark `spark.rekindle.failover.strategy`, as a flag `--set failover.strategy=full`.
- The file is the one that `--config` or `REKINDLE_CONFIG` names, else the nearest `rekindle.toml` from the current
  folder upwards. A relative location in it is relative to it.
- A file that was found, and not named, decides where data and credentials go: it must belong to this user or to root,
  and not everybody may be able to write it. Its group may: projects are shared that way.
- A key that does not exist, or a value without meaning, is refused with its place. A variable `REKINDLE_…` that looks
  like no setting is somebody else's and is left alone.
- The fields of `Config` are the table of settings; docs/reference/configuration.md is made from it.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from rekindle.errors import ConfigRefused
from rekindle.remedies import StartRemedy, TextRemedy

FILE = "rekindle.toml"
FILE_VARIABLE = "REKINDLE_CONFIG"
PREFIX = "REKINDLE_"
SPARK_PREFIX = "spark.rekindle."
STORAGE = "storage."
HIDDEN = "(hidden)"
# Options of the store that may be shown; every other one is taken for a secret.
OPEN_OPTIONS = frozenset(
    {"endpoint", "region", "bucket", "allow_http", "virtual_hosted_style_request", "account_name", "webhdfs", "user"}
)

# Names under which secrets are given, to Spark or as parameters; values that hold one, such as Java options.
SECRET_NAME = re.compile(
    r"password|passwd|passphrase|(?<![a-z])(pass|pwd|sas)(?![a-z])|secret|token|credential|signature|\.key(?![a-z])"
    r"|authorization|bearer"
    r"|(access|account|api|private|shared|encryption|master)[._-]?key",
    re.IGNORECASE,
)
# Names that only sound like those: whether something is on, which class does it, how long it lasts.
OPEN_NAME = re.compile(
    r"credentials?[._-]?providers?([._-](path|mapping))?$|skip[._-]signature$"
    r"|[._-](enabled|type|class|algorithm|version|interval|timeout|duration|seconds|expiration)$",
    re.IGNORECASE,
)
SECRET_VALUE = re.compile(
    r"(password|passphrase|secret|token|access.?key)\w*=|authorization\s*[:=]|\bbearer\s+\S", re.IGNORECASE
)
# Values that are no secret under whatever name: switches, numbers, and names of Java classes.
OPEN_VALUE = re.compile(
    r"true|false|[-+]?\d+(\.\d+)?([smhd]|ms)?|([a-z][a-z0-9_]*\.)+[A-Z][\w$]*(\s*,\s*([a-z][a-z0-9_]*\.)+[A-Z][\w$]*)*",
)
# Of a URL; not where a variable of the shell stands for it already.
PASSWORD = re.compile(r"(?<=://)([^/\s:@]*):(?!'?\"\$\{\w+:\?\}\"@)[^/\s]*@")

# Names that a shell takes for a variable.
VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")

T = TypeVar("T", str, int, float, bool)
Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table: its key, its default, what it means, and what it may be."""

    key: str
    default: Value
    meaning: str
    least: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        return PREFIX + self.key.replace(".", "_").upper()

    @property
    def kind(self) -> str:
        """What its value is, in words."""
        if self.choices:
            return " or ".join(self.choices)
        return {bool: "true or false", int: "a whole number", float: "a number", str: "text"}[type(self.default)]


def _setting(key: str, default: T, meaning: str, *, least: float | None = None, choices: tuple[str, ...] = ()) -> T:
    made: T = field(default=default, metadata={"setting": Setting(key, default, meaning, least, choices)})
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings as resolved. `origins` tells for each key that is not a default where its value came from; `file` is
    the settings file, `is_file_above` if nobody named it and it lies above the current folder."""

    location: str = _setting(
        "location", "", "where runs store journals and results: a path, or a URL that Spark can write to"
    )
    strategy: str = _setting(
        "failover.strategy",
        "region",
        "which vertices restart after a failure",
        choices=("region", "individual", "full"),
    )
    poison_tries_max: int = _setting(
        "failover.poison_tries_max", 3, "number of equal failures of a partition after which it is poison", least=1
    )
    poison_step_max: int = _setting(
        "failover.poison_step_max",
        20,
        "number of equal failures in a step after which the whole step is considered wrong",
        least=1,
    )
    attempts_per_step_max: int = _setting(
        "failover.attempts_per_step_max", 100, "number of attempts of a step after which the run stops", least=1
    )
    is_released_early: bool = _setting(
        "failover.release_early", True, "delete results that no step needs any more while the run is still running"
    )
    budget_bytes: int = _setting(
        "failover.budget_bytes",
        0,
        "size limit for the results of a run: above it, results that no step needs are deleted early; 0 is no limit",
        least=0,
    )
    backoff: str = _setting(
        "backoff.kind",
        "exponential",
        "whether and when a failure is followed by a restart",
        choices=("exponential", "fixed", "rate", "none"),
    )
    attempts_max: int = _setting("backoff.attempts_max", 10, "exponential, fixed: restarts before giving up", least=0)
    initial_ms: int = _setting("backoff.initial_ms", 1_000, "exponential: the first delay", least=0)
    factor: float = _setting("backoff.factor", 2.0, "exponential: the factor by which each delay grows", least=1)
    delay_ms_max: int = _setting("backoff.delay_ms_max", 300_000, "exponential: the longest delay", least=0)
    jitter: float = _setting("backoff.jitter", 0.1, "exponential: the share of a delay that is random", least=0)
    reset_after_ms: int = _setting(
        "backoff.reset_after_ms",
        3_600_000,
        "exponential: time without failures after which the delay is reset",
        least=0,
    )
    delay_ms: int = _setting("backoff.delay_ms", 1_000, "fixed, rate: the delay before each restart", least=0)
    failures_max: int = _setting("backoff.failures_max", 10, "rate: failures allowed within the interval", least=0)
    interval_ms: int = _setting(
        "backoff.interval_ms", 3_600_000, "rate: the interval in which they are counted", least=1
    )
    stall_seconds: float = _setting(
        "stream.stall_seconds",
        300.0,
        "of a new stream: a batch that takes longer counts as a failure of its region; 0 is for ever",
        least=0,
    )
    stops_on_give_up: bool = _setting(
        "stream.stop_on_give_up", False, "of a new stream: all regions stop when one gave up, instead of going on"
    )
    compact_batches: int = _setting(
        "stream.compact_batches",
        1_000,
        "number of batches in files whose files are made few larger ones in the background; 0 is never",
        least=0,
    )
    keep_results_minutes: float = _setting(
        "stream.keep_results_minutes",
        60.0,
        "how long a stream that runs keeps batches of a result that every region which reads it has committed",
        least=0,
    )
    result_bytes_max: int = _setting(
        "stream.result_bytes_max",
        0,
        "bytes of a result of a stream over which the region that makes it waits for those that read it; 0 is no bound",
        least=0,
    )
    memory_bytes_max: int = _setting(
        "stream.memory_bytes_max",
        256_000_000,
        "bytes of a memory result of a stream that executors keep; the oldest batches go, and are made again for a "
        "region that still needs them",
        least=1,
    )
    stale_seconds: float = _setting(
        "lease.stale_seconds",
        30.0,
        "time without a heartbeat after which the driver of a run is considered dead",
        least=10,
    )
    retention_hours: float = _setting("gc.retention_hours", 168.0, "how long an unfinished run can be resumed", least=0)
    grace_hours: float = _setting(
        "gc.grace_hours",
        24.0,
        "the age below which gc removes no file; added to the retention before a run is closed",
        least=0,
    )
    hook: str = _setting(
        "hooks.command", "", "a command that is told what happens in a run, as a line of JSON on its standard input"
    )
    keep_hours: float = _setting(
        "results.keep_hours",
        0.0,
        "how long results are kept after a run succeeded, for later runs that would compute the same; 0 is not at all",
        least=0,
    )
    is_reused: bool = _setting("results.reuse", True, "a new run takes results that an earlier run kept")
    versions_hours: float = _setting(
        "gc.versions_hours", 168.0, "how long a version of a target can be read after it was replaced", least=0
    )
    gc_batch: int = _setting("gc.batch", 1000, "number of objects that gc deletes in one request", least=1)
    gc_parallel: int = _setting(
        "gc.parallel", 8, "number of runs that gc reads in parallel from a remote store", least=1
    )
    gc_files_per_second: float = _setting(
        "gc.files_per_second", 0.0, "the maximum number of files that gc deletes per second; 0 is no limit", least=0
    )
    is_swept: bool = _setting("gc.sweep", True, "each driver deletes some old waste of its pipeline in the background")
    digest: str = _setting(
        "digest",
        "auto",
        "which results get digests: auto is those that are not proved to be determinate",
        choices=("auto", "always", "never"),
    )
    trace_folder: str = _setting(
        "trace_folder", "", "folder for full traces of unexpected errors; if empty, the system's temporary folder"
    )
    storage: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    file: str = ""
    is_file_above: bool = False

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """(key, value, where it came from) of every setting; values that may be secrets are hidden."""
        for one in fields(self):
            if "setting" in one.metadata:
                key = one.metadata["setting"].key
                yield key, without_passwords(_text(getattr(self, one.name))), self.origins.get(key, "default")
        for name, value in self.storage.items():
            shown = without_passwords(value) if may_show(name) else HIDDEN
            yield STORAGE + name, shown, self.origins.get(STORAGE + name, "default")


SETTINGS: tuple[Setting, ...] = tuple(one.metadata["setting"] for one in fields(Config) if "setting" in one.metadata)
_BY_KEY = {one.key: one for one in SETTINGS}
_NAMES = {one.metadata["setting"].key: one.name for one in fields(Config) if "setting" in one.metadata}


@dataclass(frozen=True, slots=True)
class _Given:
    """A value that somebody gave, and the words for where."""

    key: str
    value: Any
    place: str
    origin: str


def load_config(
    *,
    flags: Mapping[str, str] | None = None,
    spark: Mapping[str, str] | None = None,
    file: str = "",
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Config:
    """The settings for a process. `flags` have setting keys; `spark` may hold all of Spark's properties."""
    environ = os.environ if environ is None else environ
    named, folder = file or environ.get(FILE_VARIABLE, ""), folder or Path.cwd()
    path = _find_file(named, folder)
    layers = (
        *(_from_file(path, is_named=bool(named)) if path else ()),
        *_from_environment(environ),
        *_from_spark(spark or {}),
        *(_Given(key, value, f"--set {key}", "flag") for key, value in (flags or {}).items()),
    )
    values: dict[str, Any] = {}
    storage: dict[str, str] = {}
    origins: dict[str, str] = {}
    for given in layers:
        if given.key.startswith(STORAGE):
            storage[given.key.removeprefix(STORAGE)] = _storage_text(given)
        else:
            values[_NAMES[_known(given).key]] = _checked(_known(given), given)
        origins[given.key] = given.origin
    is_above = path is not None and not named and path.parent != folder
    return Config(**values, storage=storage, origins=origins, file=str(path or ""), is_file_above=is_above)


def is_secret(name: str, value: str = "") -> bool:
    """Whether what is given under this name, or this value, looks like a secret."""
    is_named = SECRET_NAME.search(name) and not OPEN_NAME.search(name)
    return bool(is_named or SECRET_VALUE.search(value))


def is_open(value: str) -> bool:
    """Whether a value cannot be a secret: it stands in texts that have nothing to do with where it was given."""
    return OPEN_VALUE.fullmatch(value) is not None or value.lower() in ("true", "false")


def may_show(option: str) -> bool:
    """Whether the value of an option of the store may be printed."""
    return option in OPEN_OPTIONS


def without_passwords(text: str) -> str:
    """`http://me:(hidden)@host`: passwords inside of URLs are hidden."""
    return PASSWORD.sub(rf"\1:{HIDDEN}@", text)


def variable_with(secret: str, environ: Mapping[str, str] | None = None) -> str:
    """The variable of the environment that holds a secret, by which it can be named; empty if none does."""
    given = (os.environ if environ is None else environ).items()
    names = (name for name, value in given if value == secret and VARIABLE.fullmatch(name))
    return next(filter(is_secret, names), "") if secret else ""


def is_plain(environ: Mapping[str, str] | None = None) -> bool:
    """Whether the user asked for no colour, by the variable that all programs share."""
    return bool((os.environ if environ is None else environ).get("NO_COLOR"))


def is_submitted(environ: Mapping[str, str] | None = None) -> bool:
    """Whether this process runs under spark-submit, which has a Spark application for it."""
    return "PYSPARK_GATEWAY_PORT" in (os.environ if environ is None else environ)


def has_spark_folder(environ: Mapping[str, str] | None = None) -> bool:
    """Whether the environment names a folder with Spark's own settings, such as where its log goes."""
    return "SPARK_CONF_DIR" in (os.environ if environ is None else environ)


def spark_defaults(environ: Mapping[str, str] | None = None) -> Path | None:
    """The file with Spark's settings for every application, if the environment names its folder and it is there."""
    known = os.environ if environ is None else environ
    folders = [known.get("SPARK_CONF_DIR", ""), *(f"{home}/conf" for home in [known.get("SPARK_HOME", "")] if home)]
    folder = next(filter(None, folders), "")
    file = Path(folder) / "spark-defaults.conf"
    return file if folder and file.is_file() else None


def java_home(environ: Mapping[str, str] | None = None) -> str:
    """Where the environment says that Java is; empty if it says nothing."""
    return (os.environ if environ is None else environ).get("JAVA_HOME", "")


def columns(environ: Mapping[str, str] | None = None) -> int | None:
    """The width that the environment asks for, if it does."""
    text = (os.environ if environ is None else environ).get("COLUMNS", "")
    return int(text) if text.isdecimal() and int(text) > 0 else None


def _find_file(named: str, folder: Path) -> Path | None:
    if named:
        path = Path(named)
        if not path.is_file():
            raise ConfigRefused(f"there is no file {named}", f"name another; {FILE_VARIABLE} may be what names it")
        return path
    return next((path for level in (folder, *folder.parents) if (path := level / FILE).is_file()), None)


def _from_file(path: Path, *, is_named: bool) -> Iterator[_Given]:
    try:
        with path.open("rb") as file:
            if not is_named:
                _refuse_foreign(path, path.lstat(), os.fstat(file.fileno()))
            table = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigRefused(f"{path} cannot be read: {error}", f"correct {path}") from error
    for key, value in _flat(table):
        if key == "location" and isinstance(value, str) and "://" not in value and not value.startswith("file:"):
            value = str(path.parent / value)
        yield _Given(key, value, f"{path}: {key}", str(path))


def _refuse_foreign(path: Path, link: os.stat_result, file: os.stat_result) -> None:
    """Raise `ConfigRefused` where somebody else may have written what was found. `link` is the file itself, unless a
    link led to it."""
    user = os.geteuid()
    foreign = [found.st_uid for found in (link, file) if found.st_uid not in (user, 0)]
    if foreign:
        why = f"it belongs to user {foreign[0]}, and you are user {user}"
    elif file.st_mode & stat.S_IWOTH:
        why = "everybody on this machine may change it"
    else:
        return
    raise ConfigRefused(
        f"{path} was found and is not used: {why}",
        (StartRemedy(to="if you trust what it says", config=str(path)), TextRemedy("else work in another folder")),
    )


def _flat(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield above + name, value


def _from_environment(environ: Mapping[str, str]) -> Iterator[_Given]:
    variables = {one.variable: one.key for one in SETTINGS}
    storage = PREFIX + "STORAGE_"
    for name, value in environ.items():
        if name in variables:
            yield _Given(variables[name], value, name, name)
        elif name.startswith(storage):
            yield _Given(STORAGE + name.removeprefix(storage).lower(), value, name, name)
        elif name.startswith(PREFIX) and name != FILE_VARIABLE:
            near = get_close_matches(name, variables, n=1, cutoff=0.85)
            if near:
                raise ConfigRefused(f"{name} is not a setting", f"did you mean {near[0]}?")


def _from_spark(properties: Mapping[str, str]) -> Iterator[_Given]:
    for name, value in properties.items():
        if name.startswith(SPARK_PREFIX):
            yield _Given(name.removeprefix(SPARK_PREFIX), value, name, name)


def _known(given: _Given) -> Setting:
    found = _BY_KEY.get(given.key)
    if found is None:
        near = get_close_matches(given.key, [*_BY_KEY, STORAGE + "endpoint"], n=1)
        hint = f"did you mean {near[0]}?" if near else f"the settings are {', '.join(_BY_KEY)} and {STORAGE}*"
        raise ConfigRefused(f"{given.place}: there is no setting {given.key}", hint)
    return found


def _checked(setting: Setting, given: _Given) -> Value:
    value = _converted(setting, given.value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is None or (setting.choices and value not in setting.choices):
        raise _no_meaning(setting, given, setting.kind)
    if setting.least is not None and is_number and not float(value) >= setting.least:
        raise _no_meaning(setting, given, f"{setting.kind}, at least {setting.least:g}")
    return value


def _converted(setting: Setting, value: Any) -> Value | None:
    """The value as the kind of its default, None where it is not one. Everything but the file gives text."""
    match setting.default:
        case bool():
            words = {"true": True, "false": False}
            return value if isinstance(value, bool) else words.get(str(value).lower())
        case int() | float() if isinstance(value, bool):
            return None
        case int():
            return value if isinstance(value, int) else _number(value, int)
        case float():
            return float(value) if isinstance(value, int | float) else _number(value, float)
        case str():
            return value if isinstance(value, str) else None


def _number(value: Any, kind: type[int] | type[float]) -> int | float | None:
    try:
        return kind(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _storage_text(given: _Given) -> str:
    match given.value:
        case bool():
            return str(given.value).lower()
        case str() | int() | float():
            return str(given.value)
        case _:
            raise ConfigRefused(f"{given.place} must be text", 'endpoint = "http://localhost:9000"')


def _no_meaning(setting: Setting, given: _Given, wanted: str) -> ConfigRefused:
    return ConfigRefused(
        f"{given.place} = {given.value!r} is not valid: {setting.meaning}",
        f"give {wanted}, such as {_text(setting.default)}",
    )


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
