"""The whole pipeline, checked before anything runs: every fault with its source line and what to type next.

Nothing is started while one is left. All of them are told at once, so that nobody has to run a pipeline three times to
learn of three.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

from rekindle.errors import GraphRefused, ParameterRefused, Refused
from rekindle.model.kinds import KeepUntil
from rekindle.pipeline.declared import REQUIRED, SESSION, SHARD, Argument, Binding, Declared, Role
from rekindle.pipeline.did_you_mean import did_you_mean
from rekindle.pipeline.run_targets import SAY_SO, TargetFunction, asked_by, defaults, is_target
from rekindle.pipeline.signature import name_of, place_of

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
AUTO, PIPELINED, BLOCKING = "auto", "pipelined", "blocking"
CACHING, MEMORY = "caching", "memory"
# Kept on executors, as blocks.
IN_BLOCKS = (CACHING, MEMORY)
RESULTS = (AUTO, PIPELINED, BLOCKING, *IN_BLOCKS)
REPLICAS_MAX = 9
SHARDS_MAX = 64
# What `Pipeline.run` takes itself.
RESERVED = (SESSION, "location", "options", "self")

Steps = Mapping[str, Declared]


@dataclass(frozen=True, slots=True)
class DeclarationFault:
    """One thing that is wrong, where, and what to type instead."""

    place: str
    text: str
    hint: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}\n  next: {self.hint}"


def check(declared: Sequence[Declared], given: Collection[str] = ()) -> tuple[Declared, ...]:
    """Everything that was declared, producers first, each parameter bound. Raises `GraphRefused` or
    `ParameterRefused`. `given` are the names of the run's parameters."""
    steps = {one.name: one for one in declared}
    bound = [_bind(one, steps) for one in declared]
    faults = (fault for one in bound for fault in _faults(one, bound, given))
    refuse([*_doubled(declared), *_shared_targets(declared), *faults])
    _refuse_parameters(bound, given)
    return _ordered({one.name: one for one in bound})


def check_target(target: object) -> None:
    """Said at once, where it can be."""
    if not is_target(target) and not callable(target):
        raise GraphRefused(f"a sink needs a target, and {target!r} is not one", SAY_SO)


def refuse_bare_sinks(chosen_by: Collection[TargetFunction]) -> None:
    """A bare `@pipeline.sink` takes the function below it for one that chooses a target, and would publish nothing."""
    for one in chosen_by:
        raise GraphRefused(f"{place_of(one)}: a sink needs a target, and {name_of(one) or 'this'} is not one", SAY_SO)


def check_pipeline_name(name: str, what: str, hint: str, *, place: str = "") -> None:
    """It becomes the name of a folder beside those that begin with _. `what` has the name: "a pipeline"."""
    if not name.isidentifier() or not name.isascii() or name.startswith("_"):
        where = f"{place}: " if place else ""
        raise GraphRefused(
            f"{where}{name!r} is not a valid name of {what}: use letters, digits and _, and a letter first", hint
        )


def check_name(one: Declared, others: Iterable[Declared]) -> None:
    """As soon as it is declared: a name is taken once, and becomes the name of a directory."""
    refuse([*_name(one), *_doubled([*others, one])])


def refuse(faults: Sequence[DeclarationFault]) -> None:
    """Raise one error that tells all of them; return if there is none."""
    match faults:
        case []:
            return
        case [one]:
            raise GraphRefused(f"{one.place}: {one.text}", one.hint)
        case _:
            told = "\n".join(str(one) for one in faults)
            raise GraphRefused(f"this pipeline has {len(faults)} errors:\n{told}")


def _bind(one: Declared, steps: Steps) -> Declared:
    """A parameter named like a step is an input, unless it was bound by hand."""

    def bound(argument: Argument) -> Argument:
        if argument.binding is not Binding.PARAMETER:
            return argument
        if argument.name in steps:
            return replace(argument, binding=Binding.INPUT, step=argument.name)
        return replace(argument, binding=Binding.SHARD) if argument.name == SHARD and one.shards else argument

    return replace(one, arguments=tuple(bound(argument) for argument in one.arguments))


def _faults(one: Declared, declared: Sequence[Declared], given: Collection[str]) -> Iterator[DeclarationFault]:
    yield from _name(one)
    yield from _result(one, declared)
    yield from _blocks(one, declared)
    yield from _layout(one)
    yield from _shards(one)
    yield from _inputs(one, {other.name: other for other in declared})
    yield from _parameters(one, declared, given)
    yield from target_faults(one, declared, given)


def _name(one: Declared) -> Iterator[DeclarationFault]:
    if not one.name:
        yield DeclarationFault(one.place, f"this {one.role.value} has no name", 'name it: name="…"')
    elif not NAME.fullmatch(one.name):
        better = re.sub(r"\W", "_", one.name, flags=re.ASCII)
        better = better if NAME.fullmatch(better) else f"_{better}"
        text = f"{one.name!r} is not a valid name of a {one.role.value}: use letters, digits and _, and no digit first"
        yield DeclarationFault(one.place, text, f'name="{better}"')
    elif one.name in RESERVED:
        text = f"{one.name} is not a valid name of a {one.role.value}: a parameter of that name is reserved"
        yield DeclarationFault(one.place, text, f'name="{one.name}_{one.role.value}"')


def _doubled(declared: Sequence[Declared]) -> Iterator[DeclarationFault]:
    seen: dict[str, Declared] = {}
    for one in declared:
        first = seen.setdefault(one.name, one)
        if first is not one and one.name:
            text = f"{one.name} is declared twice, first at {first.place}"
            yield DeclarationFault(one.place, text, f'name="{one.name}_2", or remove one of them')


def _shared_targets(declared: Sequence[Declared]) -> Iterator[DeclarationFault]:
    """Two sinks of one run have the same fence: each would take the other's publication for its own."""
    seen: dict[str, Declared] = {}
    for one in declared:
        if one.target is not None and (first := seen.setdefault(one.target.spelling, one)) is not one:
            text = f"{one.name} publishes to {one.target.shown}, and so does {first.name} ({first.place})"
            yield DeclarationFault(one.place, text, "give it another target, or unite the two in one step")


def _result(one: Declared, declared: Sequence[Declared]) -> Iterator[DeclarationFault]:
    if one.result not in RESULTS:
        near = did_you_mean(one.result, RESULTS)
        text = f"result={one.result!r} of {one.name} is not a result kind"
        yield DeclarationFault(one.place, text, near or f"one of {', '.join(RESULTS)}")
    elif one.result == PIPELINED and one.is_eager:
        text = f"{one.name} is eager, so it must be kept: its Spark jobs must not run again for each consumer"
        yield DeclarationFault(one.place, text, "leave out result='pipelined', or eager=True")
    elif one.result == PIPELINED and one.keep is KeepUntil.FOREVER:
        text = f"{one.name} is pipelined, so it has no result to keep forever"
        yield DeclarationFault(one.place, text, "result='blocking', or leave out keep_until='forever'")
    elif one.result == PIPELINED and (one.is_reusable or one.is_pessimistic is not None):
        text = f"{one.name} is pipelined, so reuse and failover have no result to speak of"
        yield DeclarationFault(one.place, text, "result='blocking', or leave out reuse and failover")
    elif one.result == PIPELINED and not any(one.name in other.inputs for other in declared):
        text = f"{one.name} is pipelined, but no step reads it"
        yield DeclarationFault(one.place, text, "result='blocking', or give it a reader")


def refuse_topic(step: Declared) -> None:
    """Of a step that is no stream."""
    if step.topic is not None:
        raise GraphRefused(
            f"{step.place}: {step.name} has its result in {step.topic.shown}, and is no stream",
            f'say result="{CACHING}" or result="{BLOCKING}", or leave it out',
        )


def _blocks(one: Declared, declared: Sequence[Declared]) -> Iterator[DeclarationFault]:
    """What lies on executors ends with the application."""
    if one.replicas is not None and one.result not in IN_BLOCKS:
        text = f"replicas of {one.name} is not allowed: only caching and memory results have replicas"
        yield DeclarationFault(one.place, text, "result='caching', or leave out replicas")
    elif one.replicas is not None and not (isinstance(one.replicas, int) and 1 <= one.replicas <= REPLICAS_MAX):
        text = f"replicas={one.replicas!r} of {one.name}: must be from 1 to {REPLICAS_MAX}"
        yield DeclarationFault(one.place, text, "replicas=2")
    if one.result not in IN_BLOCKS:
        return
    if one.role is Role.SINK:
        text = f"{one.name} is a sink and needs files, but result={one.result!r} keeps none"
        yield DeclarationFault(one.place, text, f"leave out result; its input may have result={one.result!r}")
    elif one.keep is KeepUntil.FOREVER:
        text = f"{one.name} cannot be kept forever: result={one.result!r} ends with the Spark application"
        yield DeclarationFault(one.place, text, "result='blocking', or leave out keep_until='forever'")
    elif not any(one.name in other.inputs for other in declared):
        text = f"{one.name} has result={one.result!r}, but no step reads it before the Spark application ends"
        yield DeclarationFault(one.place, text, "result='blocking', or give it a reader")


def _layout(one: Declared) -> Iterator[DeclarationFault]:
    if one.partitions is not None and (not isinstance(one.partitions, int) or one.partitions < 1):
        yield DeclarationFault(
            one.place, f"partitions={one.partitions!r} of {one.name}: must be 1 or more", "partitions=200"
        )
    if len(set(one.keys)) < len(one.keys) or not all(one.keys):
        text = f"partition_by of {one.name} names a column twice, or none: {', '.join(map(repr, one.keys))}"
        yield DeclarationFault(one.place, text, f"partition_by={[key for key in dict.fromkeys(one.keys) if key]}")
    if one.result == PIPELINED and one.has_layout:
        what = "partition_by" if one.keys else "partitions"
        text = (
            f"{what} of {one.name} is not allowed: a pipelined result is not stored, so it has no partitions of its own"
        )
        yield DeclarationFault(one.place, text, f"result='blocking', or leave out {what}")


def _shards(one: Declared) -> Iterator[DeclarationFault]:
    if one.shards and one.role is not Role.SOURCE:
        text = f"shards of {one.name} is not allowed: a {one.role.value} has those of the sources that it reads"
        yield DeclarationFault(one.place, text, "say shards at its source: @pipeline.source(shards=4)")
    elif not isinstance(one.shards, int) or not 0 <= one.shards <= SHARDS_MAX:
        text = f"shards={one.shards!r} of {one.name}: must be from 1 to {SHARDS_MAX}"
        yield DeclarationFault(one.place, text, "shards=4")


def _inputs(one: Declared, steps: Steps) -> Iterator[DeclarationFault]:
    for name in one.inputs:
        if name not in steps:
            near = did_you_mean(name, steps)
            yield DeclarationFault(
                one.place, f"{one.name} reads {name}, but there is no such step", near or _known(steps)
            )
        elif steps[name].role is Role.SINK:
            text = f"{one.name} reads {name}, but no step can read a sink"
            read = ", ".join(steps[name].inputs) or "a step"
            hint = f"make {name} a step, and publish it by a sink that reads it; or read what {name} reads: {read}"
            yield DeclarationFault(one.place, text, hint)
    if one.role is Role.SOURCE and one.inputs:
        text = f"source {one.name} reads {', '.join(one.inputs)}: a source cannot read steps"
        yield DeclarationFault(one.place, text, "make it a step: @pipeline.step")
    elif one.role is not Role.SOURCE and not one.inputs:
        text = f"{one.role.value} {one.name} has no input: none of its parameters is the name of a step"
        yield DeclarationFault(one.place, text, _rename(one, steps))


def _parameters(one: Declared, declared: Sequence[Declared], given: Collection[str]) -> Iterator[DeclarationFault]:
    names = [other.name for other in declared if other.name != one.name]
    for argument in one.arguments:
        if argument.binding is not Binding.PARAMETER:
            continue
        name = argument.name
        if name in RESERVED:
            yield DeclarationFault(
                one.place, f"{name} of {one.name} cannot be a parameter of the run", f"rename {name}"
            )
        elif argument.default is REQUIRED and name not in given:
            near = did_you_mean(name, names)
            text = f"{name} of {one.name} is neither a step of this pipeline nor a parameter of this run"
            yield DeclarationFault(
                one.place, text, near or f"pipeline.run(spark, location, {name}=…), or {name}=default"
            )


def target_faults(one: Declared, declared: Sequence[Declared], given: Collection[str]) -> Iterator[DeclarationFault]:
    """A brace in a target, or a parameter of its function, that the run gives no value."""
    try:
        asked = asked_by(one)
    except Refused as error:
        yield DeclarationFault(one.place, f"{one.name}: {error.message}", str(error.hint))
        return
    for name, default in asked.items():
        usual = defaults(declared, name)
        if name in given or (default is not REQUIRED and not usual) or len(usual) == 1:
            continue
        if len(usual) > 1:
            text = f"the target of {one.name} names {name}, for which steps have different defaults"
            yield DeclarationFault(one.place, text, f"give it: pipeline.run(spark, location, {name}=…)")
        else:
            known = {*given, *(parameter for other in declared for parameter in other.parameters)}
            text = f"the target of {one.name} names {name}, which is not a parameter of this run"
            near = did_you_mean(name, known - {name})
            yield DeclarationFault(one.place, text, near or f"pipeline.run(spark, location, {name}=…)")


def _rename(one: Declared, steps: Steps) -> str:
    others = [name for name in steps if name != one.name]
    near = (did_you_mean(argument.name, others) for argument in one.arguments)
    source = "" if one.role is Role.SINK else "@pipeline.source if it reads from outside, or "
    return next(filter(None, near), f"{source}name a parameter like the step it reads")


def _known(steps: Steps) -> str:
    return f"the steps are {', '.join(steps)}"


def _refuse_parameters(declared: Sequence[Declared], given: Collection[str]) -> None:
    """A parameter that nobody asks for is part of the run's key all the same: most likely it is misspelt."""
    asked = {name for one in declared for name in (*one.parameters, *asked_by(one))}
    for name in given:
        if name not in asked:
            raise ParameterRefused(
                f"nothing in this pipeline asks for the parameter {name}",
                hint=did_you_mean(name, asked) or f"it asks for {', '.join(sorted(asked)) or 'no parameter'}",
            )


def _ordered(steps: Steps) -> tuple[Declared, ...]:
    try:
        order = list(TopologicalSorter({name: one.inputs for name, one in steps.items()}).static_order())
    except CycleError as error:
        circle: list[str] = error.args[1]
        told = " -> ".join(f"{name} ({steps[name].place})" for name in circle)
        raise GraphRefused(
            f"{steps[circle[0]].place}: these steps form a cycle: {told}",
            hint="a step reads only what is made before it; rename the parameter that closes the circle",
        ) from None
    return tuple(steps[name] for name in order)
