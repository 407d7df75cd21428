"""The Python of a plan, read from what PySpark packed for its workers: the parts of the function, nothing run."""

from __future__ import annotations

import functools
import importlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

import rekindle
from build_jar import HERE
from rekindle.engine.spark.plan.given import FrameCode
from rekindle.engine.spark_lines import LINES
from rekindle.pipeline.identity.fingerprint import is_task_bound, parts
from rekindle.pipeline.identity.pickle_reader import VALUES_BYTES_MAX, UnbuiltObject, Unreadable, read

_from_id = importlib.import_module("pyspark.broadcast" if HERE is LINES[0] else "pyspark.core.broadcast")._from_id

SCRIPT = """
import functools, re
from dataclasses import dataclass

RATE = {"eur": 1.1}
WORDS = {"a", "b", "c", "d"}

def helper(x): return x * RATE["eur"] if str(x) not in WORDS else x

def price(x, digits=2):
    '''Documentation does not count.'''
    return round(helper(x), digits)

def recursive(n): return n if n < 2 else recursive(n - 1)

def closed(over):
    def inner(x): return x + over
    return inner

@dataclass
class Scorer:
    weight: float
    def score(self, x): return x * self.weight + len(re.findall("1", str(x)))


def wrapped(function):
    @functools.wraps(function)
    def call(*given): return function(*given)
    return call

decorated = wrapped(price)
sliced = functools.partial(price, digits=1)
method = Scorer(2.0).score
inner = closed(3)
by_lambda = lambda x: helper(x) + 1
NAMES = "price recursive inner method decorated sliced by_lambda".split()
"""


def made(text: str, name: str = "script") -> dict[str, Any]:
    """A script that is no module, as a notebook or a file that was started is."""
    names: dict[str, Any] = {"__name__": name}
    exec(compile(text, "script.py", "exec", dont_inherit=True), names)
    return names


def identity(function: Any, broadcasts: dict[int, bytes] | None = None) -> dict[str, str]:
    """The parts of a frame whose plan holds this function, after it was packed as PySpark does it."""
    command, _ = read(cloudpickle.dumps((function, "long")), broadcasts or {})
    return parts(FrameCode(None, (command,)))


@pytest.mark.parametrize("name", made(SCRIPT)["NAMES"])
def test_a_function_is_the_same_however_often_it_is_defined(name: str) -> None:
    assert identity(made(SCRIPT)[name]) == identity(made(SCRIPT)[name])


@pytest.mark.parametrize("name", made(SCRIPT)["NAMES"])
def test_where_it_stands_and_what_is_said_about_it_does_not_count(name: str) -> None:
    moved = "# A comment.\n\n" + SCRIPT.replace("Documentation does not count", "Other words")
    assert identity(made(SCRIPT)[name]) == identity(made(moved)[name])


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("price", "round(helper(x), digits)", "round(helper(x), digits) + 1"),
        ("price", "digits=2", "digits=3"),
        ("price", "1.1", "1.2"),
        ("price", '"c", "d"', '"c", "e"'),
        ("price", "return x * RATE", "return 2 * x * RATE"),
        ("recursive", "n < 2", "n < 3"),
        ("inner", "closed(3)", "closed(4)"),
        ("method", "Scorer(2.0)", "Scorer(2.5)"),
        ("method", "self.weight +", "self.weight -"),
        ("decorated", "round(helper(x), digits)", "round(helper(x), digits) + 1"),
        ("decorated", "return function(*given)", "return function(*given) or 0"),
        ("sliced", "digits=1", "digits=0"),
        ("sliced", "return x * RATE", "return 2 * x * RATE"),
        ("by_lambda", "helper(x) + 1", "helper(x) + 2"),
    ],
)
def test_each_change_is_seen(name: str, old: str, new: str) -> None:
    assert old in SCRIPT
    assert identity(made(SCRIPT)[name]) != identity(made(SCRIPT.replace(old, new))[name])


def test_the_parts_are_those_of_the_function_itself() -> None:
    function = made(SCRIPT)["price"]
    own, packed = parts(function), identity(function)
    assert packed["helper:price"] == own["code"]
    assert packed.pop("default:price.digits") == own.pop("default:digits") == "2"
    del packed["code"], packed["helper:price"], own["code"]
    assert packed == own and "helper:helper" in own


def test_a_function_of_a_module_counts_by_the_code_it_has_now(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(value: str) -> str:
        return value.upper()

    before = identity(shouted)
    monkeypatch.setattr(f"{__name__}.quiet", other)
    assert identity(shouted) != before


def quiet(value: str) -> str:
    return value.lower()


def shouted(value: str) -> str:
    return quiet(value) + "!"


def test_a_package_function_made_on_the_fly_is_looked_into() -> None:
    """What a decorator of an installed package returns: the code is the package's, what it holds is the user's."""

    def of_a_package(*holding: Any) -> Callable[..., Any]:
        names: dict[str, Any] = {"__name__": "package"}
        path = f"{sys.prefix}/lib/python3/site-packages/package.py"
        exec(
            compile("def keep(held):\n def call(x): return held[0](x)\n return call", path, "exec", dont_inherit=True),
            names,
        )
        found: Callable[..., Any] = names["keep"](list(holding))
        return found

    one, two = made(SCRIPT)["price"], made(SCRIPT.replace("1.1", "1.2"))["price"]
    assert identity(of_a_package(one)) == identity(of_a_package(made(SCRIPT)["price"]))
    assert identity(of_a_package(one)) != identity(of_a_package(two))


def test_a_broadcast_variable_counts_by_its_value_and_not_by_its_number() -> None:
    one, two, three = Shared(1), Shared(7), Shared(8)
    values = {1: cloudpickle.dumps({"a": 1}), 7: cloudpickle.dumps({"a": 1}), 8: cloudpickle.dumps({"a": 2})}
    text = "def look(x): return table.value[x]"
    found = [identity(made_with(text, table=shared)["look"], values) for shared in (one, two, three)]
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("kind", [set, frozenset])
def test_the_order_in_a_set_of_a_large_broadcast_variable_does_not_count(kind: Callable[[Any], Any]) -> None:
    filler = "x" * VALUES_BYTES_MAX
    values = {number: cloudpickle.dumps([filler, kind(one)]) for number, one in enumerate(([0, 8], [8, 0], [0, 16]))}
    assert values[0] != values[1], "the same set in another order"
    text = "def look(x): return x in table.value[1]"
    found = [identity(made_with(text, table=Shared(number))["look"], values) for number in values]
    assert found[0] == found[1] != found[2]


def test_a_large_command_is_read_from_its_broadcast_variable() -> None:
    function = made(SCRIPT)["price"]
    sent = cloudpickle.dumps(cloudpickle.dumps((function, "long")))
    command, kind = read(cloudpickle.dumps(Shared(3)), {3: sent})
    assert kind == "long" and parts(command) == parts(function)


class Shared:
    """Packs itself as PySpark's broadcast variables do."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> Any:
        return _from_id, (self._number,)


def made_with(text: str, **more: Any) -> dict[str, Any]:
    names = {"__name__": "script", **more}
    exec(compile(text, "script.py", "exec", dont_inherit=True), names)
    return names


RAN: list[str] = []


class Trap:
    def __reduce__(self) -> Any:
        return RAN.append, ("made",)


def test_nothing_that_was_packed_is_run() -> None:
    packed = cloudpickle.dumps((functools.partial(print, Trap()), "long"))
    read(packed, {})
    assert RAN == []


def test_what_only_its_packer_could_find_again_is_refused() -> None:
    class Foreign(cloudpickle.Pickler):  # type: ignore[misc]
        def persistent_id(self, found: object) -> str | None:
            return "elsewhere" if found is RAN else None

    to = io.BytesIO()
    Foreign(to).dump((RAN, "long"))
    with pytest.raises(Unreadable, match="BINPERSID"):
        read(to.getvalue(), {})


def test_a_function_that_asks_for_its_task_is_found() -> None:
    text = "from pyspark import TaskContext\ndef here(x): return TaskContext.get().partitionId()"
    command, _ = read(cloudpickle.dumps((made(text)["here"], "long")), {})
    assert is_task_bound(FrameCode(None, (command,)))
    assert not is_task_bound(FrameCode(None, (made(SCRIPT)["price"],)))


ELSEWHERE = """
import json, sys
sys.path[:0] = {paths!r}
from engine.test_onramp_code import SCRIPT, identity, made
names = made(SCRIPT, "another_name")
print(json.dumps({{name: identity(names[name]) for name in names["NAMES"]}}))
"""


@pytest.mark.slow
def test_equal_in_another_process_under_another_name() -> None:
    tests = Path(__file__).parent.parent
    paths = [str(Path(rekindle.__file__).parent.parent), str(tests), str(tests.parent / "verification")]
    found = []
    for seed in ("1", "2"):
        code = ELSEWHERE.format(paths=paths)
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | {"PYTHONHASHSEED": seed}
        )
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    here = made(SCRIPT)
    assert found[0] == found[1] == {name: identity(here[name]) for name in here["NAMES"]}


def packed(*opcodes: bytes | str) -> bytes:
    return b"\x80\x02" + b"".join(one if isinstance(one, bytes) else one.encode() for one in opcodes) + b"."


def word(text: str) -> bytes:
    return b"X" + len(text).to_bytes(4, "little") + text.encode()


ATTACKS = {
    "an item for sys.path": packed("csys\npath\n", "(", word("evil"), "e"),
    "one item for sys.path": packed("csys\npath\n", word("evil"), "a"),
    "a variable of the environment": packed("cos\nenviron\n", "(", word("EVIL"), word("yes"), "u"),
    "one variable of the environment": packed("cos\nenviron\n", word("EVIL"), word("yes"), "s"),
    "a state for a function": packed("cjson\ndumps\n", "}", word("indent"), "K\x07", "s", "b"),
    "a member for a set": b"\x80\x04cengine.test_onramp_code\nMEMBERS\n(" + word("evil") + b"\x90.",
}
MEMBERS = {"a"}


@pytest.mark.parametrize("name", ATTACKS)
def test_bytes_that_tell_something_to_an_object_of_this_process_change_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "engine.test_onramp_code", sys.modules[__name__])
    before = list(sys.path), dict(os.environ), vars(json.dumps).copy(), set(MEMBERS)
    found = read(ATTACKS[name], {})
    assert (list(sys.path), dict(os.environ), vars(json.dumps), MEMBERS) == before
    assert isinstance(found, UnbuiltObject) and len(found.told) == 1


def test_the_packers_own_setters_change_no_function_of_this_process() -> None:
    class Setting:
        def __init__(self, setter: Any, *given: Any) -> None:
            self.made = setter, given

        def __reduce__(self) -> Any:
            return self.made

    own = {
        "__globals__": {"evil": 1},
        "__closure__": None,
        "__name__": "evil",
        "__qualname__": "evil",
        "__module__": "evil",
        "__defaults__": (1,),
        "__kwdefaults__": {"indent": 7},
    }
    setter = cloudpickle.cloudpickle._function_setstate
    kept = dict(json.dumps.__kwdefaults__ or {}), json.dumps.__name__, "evil" in vars(json)
    read(cloudpickle.dumps(Setting(setter, json.dumps, ({"evil": 1}, own))), {})
    assert (dict(json.dumps.__kwdefaults__ or {}), json.dumps.__name__, "evil" in vars(json)) == kept
    assert not hasattr(json.dumps, "evil")


def test_a_function_over_live_names_gets_names_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "engine.test_onramp_code", sys.modules[__name__])
    packer, here = "cpyspark.cloudpickle.cloudpickle\n", "cengine.test_onramp_code\n"
    names = "__closure__ __name__ __qualname__ __module__ __defaults__ __kwdefaults__".split()
    told = [word(one) + (word("evil") if "name" in one else b"N") for one in names]
    own = [b"}(", word("__globals__"), b"}", word("evil"), word("yes"), b"s", *told, b"u"]
    made = [packer, "_make_function\n(", here, "quiet.__code__\n", here, "NAMES\nNNNtR"]
    read(packed(packer, "_function_setstate\n(", *made, b"(}", *own, b"ttR"), {})
    assert NAMES == {"__name__": "script"}


NAMES: dict[str, Any] = {"__name__": "script"}
