"""Settings: one order, one table, and errors that name the place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cli.calling import call
from rekindle.config import SETTINGS, Config, columns, is_plain, load_config
from rekindle.errors import ConfigRefused
from rekindle.failover.backoff import Exponential, FailureRate, FixedDelay, NoRestart
from rekindle.failover.restart import Strategy
from rekindle.master.facts.config import MasterConfig
from rekindle.service.limits import master_config

EVERYWHERE = """
location = "from-file"
[failover]
strategy = "full"
release_early = false
[backoff]
attempts_max = 1
factor = 3
[storage]
endpoint = "http://file"
region = "r1"
allow_http = true
"""


def load(
    tmp_path: Path,
    toml: str = "",
    environ: dict[str, str] | None = None,
    spark: dict[str, str] | None = None,
    flags: dict[str, str] | None = None,
) -> Config:
    if toml:
        (tmp_path / "rekindle.toml").write_text(toml)
    return load_config(flags=flags, spark=spark, environ=environ or {}, folder=tmp_path)


def test_without_anything_everything_is_the_default(tmp_path: Path) -> None:
    config = load(tmp_path)
    assert config == Config()
    assert {origin for _, _, origin in config.rows()} == {"default"}


def test_later_places_win_and_say_so(tmp_path: Path) -> None:
    environ = {"REKINDLE_LOCATION": "from-environment", "REKINDLE_BACKOFF_ATTEMPTS_MAX": "2"}
    spark = {"spark.rekindle.location": "from-spark", "spark.sql.shuffle.partitions": "3"}
    config = load(tmp_path, EVERYWHERE, environ, spark, {"location": "from-flag"})
    assert (config.location, config.attempts_max, config.strategy) == ("from-flag", 2, "full")
    assert config.is_released_early is False and config.factor == 3.0
    assert config.origins["location"] == "flag"
    assert config.origins["backoff.attempts_max"] == "REKINDLE_BACKOFF_ATTEMPTS_MAX"
    assert config.origins["failover.strategy"] == str(tmp_path / "rekindle.toml")
    assert load(tmp_path, environ=environ, spark=spark).location == "from-spark"
    assert load(tmp_path, environ=environ).location == "from-environment"


def test_a_relative_location_in_the_file_is_relative_to_the_file(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / "rekindle.toml").write_text('location = "runs"')
    assert load_config(environ={}, folder=below).location == str(tmp_path / "runs")
    (tmp_path / "rekindle.toml").write_text('location = "s3a://lake/runs"')
    assert load_config(environ={}, folder=below).location == "s3a://lake/runs"


def test_options_of_the_store_are_joined_and_secrets_hidden(tmp_path: Path) -> None:
    environ = {"REKINDLE_STORAGE_SECRET_ACCESS_KEY": "hush", "REKINDLE_STORAGE_ENDPOINT": "http://environment"}
    config = load(tmp_path, EVERYWHERE, environ)
    assert config.storage == {
        "endpoint": "http://environment",
        "region": "r1",
        "allow_http": "true",
        "secret_access_key": "hush",
    }
    rows = {key: value for key, value, _ in config.rows()}
    assert rows["storage.endpoint"] == "http://environment"
    assert "hush" not in str(rows)


@pytest.mark.parametrize(
    ("toml", "environ", "spark", "flags", "words"),
    [
        ("locaton = 'x'", {}, {}, {}, ("rekindle.toml: locaton", "did you mean location?")),
        ("[backoff]\nkind = 'never'", {}, {}, {}, ("backoff.kind = 'never'", "exponential or fixed or rate or none")),
        ("[backoff]\nattempts_max = true", {}, {}, {}, ("backoff.attempts_max", "a whole number")),
        ("[backoff]\nfactor = 'x'", {}, {}, {}, ("backoff.factor = 'x'", "a number")),
        ("[lease]\nstale_seconds = 1", {}, {}, {}, ("lease.stale_seconds = 1", "at least 10")),
        ("[storage]\nendpoint = [1]", {}, {}, {}, ("storage.endpoint must be text", "endpoint =")),
        ("location = ", {}, {}, {}, ("rekindle.toml cannot be read", "correct")),
        ("", {"REKINDLE_LOCATON": "x"}, {}, {}, ("REKINDLE_LOCATON is not a setting", "REKINDLE_LOCATION")),
        ("", {"REKINDLE_FAILOVER_RELEASE_EARLY": "yes"}, {}, {}, ("FAILOVER_RELEASE_EARLY = 'yes'", "true or false")),
        ("", {"REKINDLE_CONFIG": "nowhere.toml"}, {}, {}, ("no file nowhere.toml", "REKINDLE_CONFIG")),
        ("", {}, {"spark.rekindle.strategy": "x"}, {}, ("spark.rekindle.strategy", "failover.strategy")),
        ("", {}, {}, {"zzz": "1"}, ("--set zzz: there is no setting zzz", "the settings are location")),
        ("", {}, {}, {"backoff.delay_ms": "-1"}, ("--set backoff.delay_ms = '-1'", "at least 0")),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    tmp_path: Path,
    toml: str,
    environ: dict[str, str],
    spark: dict[str, str],
    flags: dict[str, str],
    words: tuple[str, str],
) -> None:
    with pytest.raises(ConfigRefused) as refused:
        load(tmp_path, toml, environ, spark, flags)
    assert words[0] in refused.value.message
    assert words[1] in refused.value.hint


def test_a_variable_that_looks_like_no_setting_is_somebody_elses(tmp_path: Path) -> None:
    assert load(tmp_path, environ={"REKINDLE_CACHE": "x", "HOME": "y"}) == Config()


def test_every_setting_has_a_name_and_a_variable_of_its_own() -> None:
    assert len({one.key for one in SETTINGS}) == len({one.variable for one in SETTINGS}) == len(SETTINGS)


def test_the_defaults_are_the_masters_own() -> None:
    made, own = master_config(Config()), MasterConfig()
    assert made.backoff.policy() == own.backoff.policy() == Exponential()
    assert (made.strategy, made.poison, made.attempts_per_step_max) == (
        own.strategy,
        own.poison,
        own.attempts_per_step_max,
    )
    assert made.is_released_early is own.is_released_early


def test_every_backoff_can_be_set() -> None:
    assert master_config(Config(backoff="none")).backoff.policy() == NoRestart()
    assert master_config(Config(backoff="fixed", attempts_max=2)).backoff.policy() == FixedDelay(2, 1000)
    assert master_config(Config(backoff="rate", failures_max=2)).backoff.policy() == FailureRate(2, 3_600_000, 1000)
    assert master_config(Config(strategy="full")).strategy is Strategy.FULL


def test_what_the_environment_says_about_the_terminal() -> None:
    assert is_plain({"NO_COLOR": "1"}) and not is_plain({})
    assert (columns({"COLUMNS": "40"}), columns({"COLUMNS": "x"}), columns({})) == (40, None, None)


def somebody_elses(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a file belong to another user: really, where this process may do so."""
    if os.geteuid() == 0:
        os.chown(path, 54321, -1, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 54321)


@pytest.mark.parametrize("level", ["here", "above"])
def test_a_file_of_another_user_is_not_used_unless_it_is_named(
    level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = tmp_path / "project"
    below.mkdir()
    file = (below if level == "here" else tmp_path) / "rekindle.toml"
    file.write_text('location = "s3a://theirs"\n[storage]\nendpoint = "http://theirs"\n')
    somebody_elses(file, monkeypatch)
    with pytest.raises(ConfigRefused, match="belongs to user") as refused:
        load_config(environ={"REKINDLE_STORAGE_SECRET_ACCESS_KEY": "hush"}, folder=below)
    assert f"REKINDLE_CONFIG={file}" in refused.value.hint and "hush" not in str(refused.value)
    assert load_config(environ={}, file=str(file), folder=below).location == "s3a://theirs"
    assert load_config(environ={"REKINDLE_CONFIG": str(file)}, folder=below).location == "s3a://theirs"


def test_a_link_of_another_user_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "settings.toml").write_text('location = "x"')
    link = tmp_path / "rekindle.toml"
    link.symlink_to(tmp_path / "mine" / "settings.toml")
    assert load_config(environ={}, folder=tmp_path).location == str(tmp_path / "x")
    somebody_elses(link, monkeypatch)
    with pytest.raises(ConfigRefused, match="belongs to user"):
        load_config(environ={}, folder=tmp_path)


def test_a_file_that_everybody_may_change_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "rekindle.toml").write_text('location = "x"')
    (tmp_path / "rekindle.toml").chmod(0o664)
    assert load_config(environ={}, folder=tmp_path).location == str(tmp_path / "x"), "a group shares a project"
    (tmp_path / "rekindle.toml").chmod(0o666)
    with pytest.raises(ConfigRefused, match="everybody on this machine may change it"):
        load_config(environ={}, folder=tmp_path)


def test_a_file_above_the_current_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    below = tmp_path / "project"
    below.mkdir()
    file = tmp_path / "rekindle.toml"
    file.write_text('location = "runs"')
    monkeypatch.chdir(below)
    assert call(capsys, "runs").err == f"settings: {file}, found above the current folder\n"
    assert f"settings (file {file}, found above the current folder)" in call(capsys, "doctor").out
    assert call(capsys, "runs", "--config", str(file)).err == ""
    monkeypatch.chdir(tmp_path)
    assert call(capsys, "runs").err == ""
