"""What Python says of a remedy: options and calls that a script can have."""

from __future__ import annotations

import pytest

from rekindle.errors import JournalRefused, Refused, RunFailed
from rekindle.remedies import CommandRemedy, Remedy, StartKind, StartRemedy, TextRemedy, in_python, new_run, remedies_of


@pytest.mark.parametrize(
    ("remedy", "text"),
    [
        (TextRemedy("restore it"), "restore it"),
        (new_run(), "start a new run: rk.RunOptions(new=True)"),
        (StartRemedy(), "run the same again"),
        (StartRemedy(to="correct it, then", kind=StartKind.RESUME), "correct it, then: run the same again"),
        (StartRemedy(accept_change=("a", "b"), force=True), "rk.RunOptions(accept_change=['a', 'b'], force=True)"),
        (
            StartRemedy(to="read it again", replace=("a",)),
            "read it again: rk.RunOptions(replace=['a']), or just start a script with rk.run(…) again",
        ),
        (StartRemedy(without=("a[1]",), drops=("a",)), "rk.RunOptions(without=['a[1]'])"),
        (StartRemedy(drops=("a[1]", "a[2]")), "run the same again without a[1] and a[2] in rk.RunOptions(…)"),
        (
            new_run("once more", conf=(("a.b", "false"),)),
            "once more: rk.RunOptions(new=True), SparkSession.builder.config('a.b', 'false')",
        ),
        (StartRemedy(master="local[4]"), "SparkSession.builder.master('local[4]')"),
        (StartRemedy(config="/a b/rekindle.toml"), "set REKINDLE_CONFIG='/a b/rekindle.toml'"),
        (CommandRemedy("runs"), "`rekindle runs`"),
        (CommandRemedy("show", "see it", run="daily/1"), "see it: `rekindle show daily/1`"),
        (CommandRemedy("reproduce", vertex="a[1]"), "pipeline.reproduce(…, 'a[1]')"),
    ],
)
def test_a_remedy_in_python(remedy: Remedy, text: str) -> None:
    assert in_python(remedy) == text
    assert "--" not in text


def test_an_error_takes_text_one_remedy_or_several() -> None:
    assert remedies_of("") == () and remedies_of("do it") == (TextRemedy("do it"),)
    assert remedies_of(new_run()) == (new_run(),)
    both = Refused("no", (TextRemedy("restore it"), new_run("or start a new run")))
    assert both.remedies == (TextRemedy("restore it"), new_run("or start a new run"))
    assert both.hint == "restore it; or start a new run: rk.RunOptions(new=True)"
    assert str(both) == f"no\n  next: {both.hint}"
    assert (both.message, str(Refused("no", "do it"))) == ("no", "no\n  next: do it")


def test_an_error_without_a_hint_has_the_remedies_of_its_class() -> None:
    assert (JournalRefused("no").hint, str(JournalRefused("no"))) == ("", "no")
    assert JournalRefused("no").remedies == JournalRefused.advice
    assert RunFailed("no", "do it").remedies == (TextRemedy("do it"),)
