"""The batch inputs of a stream in the words of its plan."""

from __future__ import annotations

from rekindle.observe.stream_inputs import input_lines
from rekindle.remedies import in_python
from rekindle.streams.pinned_inputs import EarlierInput, InputLook, PinnedInput

OLD = PinnedInput(digest="old", files=1, bytes=900, place="file:/lake/names")
NEW = PinnedInput(digest="new", files=3, bytes=4_000, place="file:/lake/names")


def test_what_is_pinned_and_what_is_newer() -> None:
    assert [*input_lines(InputLook(step="names", pin=OLD), None)] == [
        "  names  pinned at this start: 1 file, 900 bytes in file:/lake/names"
    ]
    changed = tuple(f"file:/lake/names/{name} is gone" for name in "abc")
    held = InputLook(step="names", pin=OLD, was=OLD, newer=NEW, changed=changed)
    assert [*input_lines(held, in_python)] == [
        "  names  pinned: 1 file, 900 bytes in file:/lake/names",
        "    it is not what was pinned: file:/lake/names/a is gone; file:/lake/names/b is gone and 1 more",
        "    there is something newer, which is not read: 3 files, 4 kB; take what there is now: "
        "rk.RunOptions(replace=['names'])",
    ]
    assert [*input_lines(held, None)][-1].endswith("3 files, 4 kB"), "no command where nobody says whose it is"


def test_what_is_taken_and_what_cannot_be_pinned() -> None:
    pin = PinnedInput(
        digest="new", files=3, bytes=4_000, place="p", loose=("a JDBC table",), earlier={"a": EarlierInput(4, "old")}
    )
    assert [*input_lines(InputLook(step="names", pin=pin, was=OLD, is_taken=True, told=("so",)), None)] == [
        "  names  takes what there is now, from the next batch on: 3 files, 4 kB in p; 1 file, 900 bytes were pinned",
        "    batch 4 of a was planned before, and reads what was pinned before",
        "    reads a JDBC table anew at each start: not pinned",
        "    so",
    ]
    assert [*input_lines(InputLook(step="names", pin=PinnedInput(loose=("an RDD",))), None)] == [
        "  names  a batch input",
        "    reads an RDD anew at each start: not pinned",
    ]
