"""A user's pipeline, from `file.py` or `module:attribute`.

- `file.py` is imported under its own name, with its folder first on the path, as Python does for a script. It is not
  run as `__main__`: what stands under that condition stays out.
- `file.py:attribute` names one of several pipelines in a file. `module:attribute` is imported from the path; the
  current folder is on it.
- A pipeline that cannot be found is refused with the names there are; an error in the user's file with its line.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from traceback import walk_tb
from types import ModuleType

from rekindle.api import Pipeline
from rekindle.cli.next_command import same
from rekindle.errors import GraphRefused, NotFound, RekindleError
from rekindle.pipeline.did_you_mean import did_you_mean

# What PySpark says when something needs a session and there is none.
NEEDS_SESSION = "SESSION_OR_CONTEXT_NOT_EXISTS"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A pipeline and the module that defines it. Workers cannot import a module of a file: its functions must travel
    by value."""

    pipeline: Pipeline
    module: ModuleType
    is_file: bool


def load(given: str) -> Loaded:
    """The pipeline that the user named."""
    place, _, attribute = given.partition(":")
    is_file = place.endswith(".py")
    module = _from_file(place) if is_file else _from_module(place, given)
    return Loaded(_pick(module, attribute, place), module, is_file)


def _from_file(place: str) -> ModuleType:
    path = Path(place).absolute()
    if not path.is_file():
        near = [str(one.relative_to(Path.cwd())) for one in sorted(Path.cwd().glob("*.py"))]
        raise NotFound(f"there is no file {place}", did_you_mean(place, near) or "name the file of the pipeline")
    name = path.stem
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None) == str(path):
        return loaded
    if loaded is not None or name in sys.stdlib_module_names:
        raise GraphRefused(f"{place} has the same name as the Python module {name}", f"rename it: my_{path.name}")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, "a file that ends in .py has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except RekindleError:
        del sys.modules[name]
        raise
    except Exception as error:
        del sys.modules[name]
        raise GraphRefused(f"{_line(error, path)}: {_what(error)}", _hint(error, f"python {place}")) from error
    return module


def _from_module(name: str, given: str) -> ModuleType:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except RekindleError:
        raise
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise GraphRefused(f"{name}: {_what(error)}", "install it where you run `rekindle`") from error
        is_near = Path(f"{name}.py").is_file()
        hint = (
            f"did you mean {name}.py?"
            if is_near
            else "give a file (daily.py) or module:attribute (flows.daily:pipeline)"
        )
        raise NotFound(f"there is no module {name} to import {given} from", hint) from error
    except Exception as error:
        raise GraphRefused(f"{name}: {_what(error)}", _hint(error, f"python -c 'import {name}'")) from error


def _pick(module: ModuleType, attribute: str, place: str) -> Pipeline:
    found = {name: value for name, value in vars(module).items() if isinstance(value, Pipeline)}
    if attribute:
        if attribute not in found:
            known = f"the pipelines there are {', '.join(found)}" if found else "there is none in it"
            raise NotFound(f"{place} has no pipeline {attribute}", did_you_mean(attribute, found) or known)
        return found[attribute]
    different = {id(pipeline): name for name, pipeline in found.items()}
    match list(different.values()):
        case []:
            raise NotFound(f"there is no pipeline in {place}", 'write `pipeline = rk.Pipeline("daily")` in it')
        case [name]:
            return found[name]
        case names:
            first = names[0]
            raise NotFound(
                f"{place} has several pipelines: {', '.join(names)}",
                f"name one, such as {place}:{first}: {same(pipeline=f'{place}:{first}')}",
            )


def _hint(error: Exception, again: str) -> str:
    """A type as text, such as `@udf("int")`, is parsed by Spark, when the file is read."""
    if NEEDS_SESSION in str(error):
        return "this line needs Spark: give the type as an object, @udf(IntegerType()), or declare it inside the step"
    return f"correct it; `{again}` shows the whole trace"


def _line(error: Exception, path: Path) -> str:
    """The line of the user's own file that the error came through last."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}:{error.lineno}"
    lines = [line for frame, line in walk_tb(error.__traceback__) if frame.f_code.co_filename == str(path)]
    return f"{path.name}:{lines[-1]}" if lines else path.name


def _what(error: Exception) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {next(iter(str(text).splitlines()), '')}"
