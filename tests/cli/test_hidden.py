"""What a user typed comes back in the next command, and what is secret comes back nowhere."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.calling import call
from doubles.user import Typed, user
from rekindle.cli import hidden, supervise
from rekindle.cli.boundary import ExitCode, guarded
from rekindle.cli.main import group
from rekindle.cli.next_command import lines_of
from rekindle.cli.typed import begin
from rekindle.config import is_secret, load_config, without_passwords
from rekindle.errors import RunFailed
from rekindle.storage.stores import open_store
from support.instant import Broken, InstantEngine

__all__ = ["user"]

SECRET = "TOPSECRET"


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    hidden.forget()


def test_the_next_command_carries_all_that_was_typed_but_no_secret(user: Typed, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text("[backoff]\nkind = 'none'\n")
    user.adapter.make = lambda folder: Broken(open_store(str(folder)))
    typed = [
        *("--config", str(tmp_path / "other.toml"), "--set", "lease.stale_seconds=20"),
        *("--storage", "region=r1", "--storage", f"secret_access_key={SECRET}"),
        *("--storage", f"endpoint=http://me:{SECRET}@host:9000"),
        *("--conf", "spark.executor.memory=2g", "--conf", f"spark.hadoop.fs.s3a.secret.key={SECRET}"),
        *("--master", "local[2]", "-p", "day=monday"),
    ]
    assert user.types("run", *typed) == ExitCode.RESUMABLE
    assert SECRET not in user.err + user.out
    *_, last = user.err.splitlines()
    head, _, command = last.partition(": rekindle resume ")
    assert head == "next: correct it, then"
    words = shlex.split(command)
    assert words[: words.index("--master")] == [
        *("--location", str(tmp_path)),
        *("--storage", "region=r1", "--storage", "secret_access_key=${REKINDLE_STORAGE_SECRET_ACCESS_KEY:?}"),
        *("--storage", "endpoint=http://me:${ENDPOINT_PASSWORD:?}@host:9000"),
        *("--set", "lease.stale_seconds=20", "--config", str(tmp_path / "other.toml")),
    ]
    assert words[words.index("--master") : -2] == [
        *("--master", "local[2]", "--conf", "spark.executor.memory=2g"),
        *("--conf", "spark.hadoop.fs.s3a.secret.key=${SPARK_HADOOP_FS_S3A_SECRET_KEY:?}"),
    ]
    names = "REKINDLE_STORAGE_SECRET_ACCESS_KEY, ENDPOINT_PASSWORD, SPARK_HADOOP_FS_S3A_SECRET_KEY"
    assert f"set first: {names}, which the next command names: Rekindle does not print secrets" in user.err


@pytest.mark.parametrize(
    "words",
    [
        ("--conf", "spark.hadoop.fs.s3a.secret.key=(hidden)"),
        ("--storage", "secret_access_key=(hidden)"),
        ("--storage", "endpoint=http://me:(hidden)@host"),
        ("--set", "storage.secret_access_key=(hidden)"),
    ],
)
def test_what_was_copied_without_its_secret_is_refused(words: tuple[str, str], user: Typed) -> None:
    assert user.types("run", *words) == ExitCode.REFUSED
    assert "is what Rekindle prints instead of the value" in user.err
    assert "next: give it by a variable: rekindle run " in user.err and ':?}"' in user.err.splitlines()[-1]


def test_a_secret_in_the_text_of_an_error_is_hidden(user: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: Path) -> InstantEngine:
        raise RuntimeError(f"cannot sign with {SECRET}, {SECRET}2 at http://me:{SECRET}@host")

    user.adapter.make = fail
    monkeypatch.setenv("REKINDLE_STORAGE_SECRET_ACCESS_KEY", f"{SECRET}2")
    assert user.types("run", "--conf", f"spark.hadoop.fs.s3a.secret.key={SECRET}") == ExitCode.FAILED
    assert SECRET not in user.err
    assert "cannot sign with (hidden), (hidden) at http://me:(hidden)@host" in user.err
    trace = user.err.splitlines()[-1].removeprefix("full trace: ")
    assert SECRET not in Path(trace).read_text()


def test_a_supervised_run_that_is_given_up_names_its_whole_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(supervise, "CHILD", "import os; os.kill(os.getpid(), 9)")
    words = ["run", "--supervise", "--new", "--location", "/x", f"--conf=a.password={SECRET}", "daily.py"]
    begin(group, words)
    config = load_config(flags={"backoff.kind": "none"})
    with pytest.raises(RunFailed) as failed:
        supervise.supervise(words, config)
    (again,) = lines_of(failed.value.remedies)
    assert again == 'rekindle run --location /x --conf a.password="${A_PASSWORD:?}" --supervise daily.py'


def test_doctor_hides_the_password_of_an_endpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--storage", f"endpoint=http://me:{SECRET}@host:9000", "--location", f"http://me:{SECRET}@host/x"]
    for extra in ([], ["--json"]):
        said = call(capsys, "doctor", *words, *extra)
        assert SECRET not in said.out + said.err
        assert "http://me:(hidden)@host:9000" in said.out


def test_other_commands_name_the_location_they_were_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    guarded(group, ["runs", "--location", str(tmp_path), "--storage", f"token={SECRET}"])
    said = capsys.readouterr().out
    assert said.splitlines()[-1] == (
        f'next: rekindle run --location {tmp_path} --storage token="${{REKINDLE_STORAGE_TOKEN:?}}" PIPELINE'
    )


def test_a_parameter_that_looks_like_a_secret_is_warned_of_and_accepted(user: Typed) -> None:
    assert user.types("run", "-p", "day=monday") == ExitCode.DONE
    assert user.err == ""
    assert user.types("run", "-p", "day=monday", "-p", "password=hunter2") == ExitCode.REFUSED, "no step asks for it"
    assert user.err.startswith("warning: parameter password looks like a secret. Parameters are stored in plain text")
    assert "hunter2" not in user.err


@pytest.mark.parametrize(
    "name",
    [
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.azure.account.key.mine.dfs.core.windows.net",
        "spark.ssl.keyPassword",
        "spark.authenticate.secret",
        "spark.hadoop.fs.azure.sas.fixed.token.mine",
        "password",
        "db_pass",
        "api_key",
        "github_token",
        "SECRET",
        "header.Authorization",
        "spark.hadoop.fs.gs.auth.bearer",
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        *("day", "partition_key", "spark.sql.shuffle.partitions", "spark.executor.memory", "passes", "keys", "sass"),
        *("skip_signature", "aws_skip_signature", "spark.hadoop.fs.s3a.aws.credentials.provider"),
        *("spark.security.credentials.hive.enabled", "spark.hadoop.fs.s3a.assumed.role.credentials.provider"),
    ],
)
def test_names_of_other_things(name: str) -> None:
    assert not is_secret(name)


PROVIDER = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"


@pytest.mark.parametrize("value", ["true", "false", "False", "12345", "3600s", PROVIDER, f"{PROVIDER}, a.b.Other"])
def test_what_cannot_be_a_secret_is_hidden_nowhere_else(value: str) -> None:
    """`--storage skip_signature=true` hid every `true`, also those of JSON."""
    hidden.remember(load_config(flags={"storage.session_token": value}), conf=[("spark.x.token", value)])
    text = f'{{"is_published": {value}}}'
    assert hidden.without_secrets(text) == text


@pytest.mark.parametrize("value", ["eyJhbGci.eyJzdWIi.SflKxwRJ", "a.b.c-Secret", "truely", "12ab34cd"])
def test_what_only_looks_like_it_is_hidden(value: str) -> None:
    hidden.remember(conf=[("spark.x.token", value)])
    assert hidden.without_secrets(f"with {value}") == "with (hidden)"


def test_an_authorization_is_hidden_with_and_without_its_kind() -> None:
    hidden.remember(load_config(flags={"storage.header.Authorization": "Bearer abcd1234"}))
    assert hidden.without_secrets("sent Bearer abcd1234; abcd1234 is expired") == "sent (hidden); (hidden) is expired"
    assert is_secret("spark.x.headers", "Authorization: Bearer abcd1234")


def test_an_option_of_the_store_that_may_not_be_shown_is_hidden_in_texts() -> None:
    flags = {"storage.sse_customer": "k3y-of-mine", "storage.region": "eu-central-1", "storage.checksum": "unsigned"}
    hidden.remember(load_config(flags={**flags, "storage.root": "/data/lake"}))
    text = "k3y-of-mine is refused in eu-central-1, unsigned, /data/lake/x"
    assert hidden.without_secrets(text) == text.replace("k3y-of-mine", "(hidden)")


def test_json_stays_json_whatever_is_hidden(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A secret may be a word that JSON, or a view of ours, is made of; in JSON it may be written in another way."""
    for value in ("null", "verdict", 'quo"ted', "back\\slash"):
        words = ["--storage", f"token={value}", "--location", f"{tmp_path}/{value}"]
        said = call(capsys, "doctor", *words, "--json")
        told = json.loads(said.out)
        assert {one["verdict"] for one in told["checks"]} and value not in str(list(told["checks"][0].values()))
        assert not any(value == row["value"] or f"/{value}" in str(row["value"]) for row in told["settings"])


def test_values_that_hold_a_secret() -> None:
    assert is_secret("spark.driver.extraJavaOptions", "-Djavax.net.ssl.keyStorePassword=x")
    assert not is_secret("spark.driver.extraJavaOptions", "-Xss4m -Dfile.encoding=UTF-8")
    assert without_passwords("abfss://lake@account/x http://h:1/p@q s3://b/k") == (
        "abfss://lake@account/x http://h:1/p@q s3://b/k"
    )
    assert without_passwords("http://u:p@ss@h/x") == "http://u:(hidden)@h/x"
