"""The programs. `§` in a text or a helper is 1 before the change and 2 after it; a program without `§` has none.

Each defines `step(df)`: `df` has the columns `id` and `x`. `part` begins the name of a part that must have changed.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field

CHANGE = "§"
IMPORTS = """
import collections, contextvars, ctypes, dataclasses, enum, functools, importlib, io, itertools, logging, operator, os
import random, sys, threading, types, typing, weakref
from pathlib import Path
from pyspark.sql import SparkSession, Window, functions as F
from pyspark.sql.functions import udf
from pyspark.sql.types import IntegerType, LongType, StringType
"""
ROWS = "def step(df): return df.withColumn('y', udf(row, IntegerType())('x'))"
GIVEN = "def step(df): return df.withColumn('y', f('x'))"


@dataclass(frozen=True, slots=True)
class Program:
    """`is_script`: the file is run and not imported, so that its functions are packed whole. `is_frame`: the frame is
    given by a script, and no function stands behind it."""

    name: str
    body: str
    part: str = ""
    helpers: Mapping[str, str] = field(default_factory=dict)
    is_script: bool = False
    is_frame: bool = False

    @property
    def has_change(self) -> bool:
        return any(CHANGE in text for text in self.files("1", is_raw=True).values())

    def files(self, value: str, *, is_raw: bool = False) -> dict[str, str]:
        texts = {f"prog_{self.name}.py": IMPORTS + textwrap.dedent(self.body), **self.helpers}
        return texts if is_raw else {name: text.replace(CHANGE, value) for name, text in texts.items()}


def _rows(name: str, head: str, part: str = "", **more: object) -> Program:
    return Program(name, f"{textwrap.dedent(head)}\n{ROWS}\n", part, **more)  # type: ignore[arg-type]


def _given(name: str, head: str, part: str = "", **more: object) -> Program:
    return Program(name, f"{textwrap.dedent(head)}\n{GIVEN}\n", part, **more)  # type: ignore[arg-type]


def _step(name: str, returns: str, part: str, head: str = "", **more: object) -> Program:
    text = f"{textwrap.dedent(head)}\ndef step(df):\n    spark = df.sparkSession\n    return {returns}\n"
    return Program(name, text, part, **more)  # type: ignore[arg-type]


FUNCTIONS = [
    _given("plain", "@udf(IntegerType())\ndef f(x): return x * §", "priced.helper:f"),
    _given(
        "method_state",
        "class P:\n    def __init__(self, r): self.r = r\n    def go(self, x): return x * self.r\n"
        "f = udf(P(§).go, IntegerType())",
        "priced.udf:",
    ),
    _given(
        "method_body",
        "class P:\n    def go(self, x): return x * §\nf = udf(P().go, IntegerType())",
        "priced.helper:P.go",
    ),
    _given(
        "callable_state",
        "class P:\n    def __init__(self, r): self.r = r\n    def __call__(self, x): return x * self.r\n"
        "f = udf(P(§), IntegerType())",
        "priced.udf:",
    ),
    _given(
        "callable_body",
        "class P:\n    def __call__(self, x): return x * §\nf = udf(P(), IntegerType())",
        "priced.helper:P.__call__",
    ),
    _given(
        "partial_bound", "def g(r, x): return x * r\nf = udf(functools.partial(g, §), IntegerType())", "priced.udf:"
    ),
    _given(
        "partial_body",
        "def g(r, x): return x * r * §\nf = udf(functools.partial(g, 3), IntegerType())",
        "priced.helper:g",
    ),
    _given(
        "cached", "@functools.lru_cache(None)\ndef g(x): return x * §\nf = udf(g, IntegerType())", "priced.helper:g"
    ),
    _given(
        "class_method",
        "class P:\n    @classmethod\n    def go(cls, x): return x * §\nf = udf(P.go, IntegerType())",
        "priced.helper:P.go",
    ),
    _given(
        "pandas_function",
        "import pandas as pd\n@F.pandas_udf(LongType())\ndef f(x: pd.Series) -> pd.Series: return x * §",
        "priced.helper:f",
    ),
    _given(
        "closure",
        "def made(r):\n    def inner(x): return x * r\n    return inner\nf = udf(made(§), IntegerType())",
        "priced.closure:made.<locals>.inner.r",
    ),
    _given("lambda_default", "f = udf(lambda x, r=§: x * r, IntegerType())", "priced.default:<lambda>.r"),
    _rows(
        "dispatched",
        "@functools.singledispatch\ndef g(x): return 0\n@g.register\ndef _(x: int): return x * §\n"
        "def row(x): return g(x)",
        "priced.udf:",
    ),
    _rows("dispatch_default", "@functools.singledispatch\ndef g(x): return §\ndef row(x): return g(x)", "priced.udf:"),
    _rows(
        "dispatched_method",
        "class R:\n    @functools.singledispatchmethod\n    def go(self, x): return 0\n    @go.register\n"
        "    def _(self, x: int): return x * §\ndef row(x): return R().go(x)",
        "priced.udf:",
    ),
    _rows("function_attribute", "def row(x): return x * row.rate\nrow.rate = §", "priced.attribute:row.rate"),
    _rows(
        "wrapped_by_own",
        "def deco(f):\n    @functools.wraps(f)\n    def call(x): return f(x) * §\n    return call\n"
        "@deco\ndef row(x): return x",
        "priced.helper:deco.<locals>.call",
    ),
    _rows(
        "wrapped_in_object",
        "def deco(n):\n    def w(f):\n        class W:\n            def __call__(self, x): return f(x) * n\n"
        "        return W()\n    return w\n@deco(§)\ndef inner(x): return x\ndef row(x): return inner(x)",
        "priced.udf:",
    ),
    _rows("recursive", "def row(x): return § if not x or x < 2 else row(x - 2)", "priced.helper:row"),
    _rows("keyword_default", "def row(x, *, rate=§): return x * rate", "priced.default:row.rate"),
    _step("inner_function", "df.withColumn('y', udf(lambda x: x * §, IntegerType())('x'))", "priced.code"),
    _step(
        "map_in_pandas",
        "df.mapInPandas(many, 'id long, x int')",
        "priced.helper:many",
        "def many(frames):\n    for one in frames: yield one[one.x > §]",
    ),
    _step(
        "apply_in_pandas",
        "df.groupBy('id').applyInPandas(one, 'id long, x int')",
        "priced.helper:one",
        "def one(frame): return frame[frame.x > §]",
    ),
    _step(
        "udtf",
        "df.select('id', 'x').join(F.udtf(Many, returnType='n int')(F.lit(3)))",
        "priced.udf:",
        "class Many:\n    def eval(self, n):\n        yield (n * §,)",
    ),
]
BY_NAME = [
    _step(
        "registered",
        "df.selectExpr('*', 'rate_by_name(x) as y')",
        "priced.udf:rate_by_name",
        "def rate(x): return x * §\nSparkSession.getActiveSession().udf.register('rate_by_name', rate, IntegerType())",
    ),
    _step(
        "registered_method",
        "df.selectExpr('*', 'rate_of_method(x) as y')",
        "priced.udf:rate_of_method",
        "class P:\n    r = §\n    def go(self, x): return x * self.r\n"
        "SparkSession.getActiveSession().udf.register('rate_of_method', P().go, IntegerType())",
    ),
    _step(
        "registered_in_view",
        "spark.table('corpus_view')",
        "priced.udf:",
        "sp = SparkSession.getActiveSession()\n"
        "sp.range(3).select(udf(lambda x: x * §, LongType())('id').alias('y')).createOrReplaceTempView('corpus_view')",
    ),
    _step(
        "column_of_udf",
        "df.withColumn('y', Y)",
        "priced.udf:f",
        "@udf(IntegerType())\ndef f(x): return x * §\nY = f('x')",
    ),
    _step(
        "column_of_method",
        "df.withColumn('y', Y)",
        "priced.udf:",
        "class P:\n    def __init__(self, r): self.r = r\n"
        "    def go(self, x): return x * self.r\nY = udf(P(§).go, IntegerType())('x')",
    ),
    _step(
        "column_in_dict", "df.withColumns(YS)", "priced.udf:", "YS = {'y': udf(lambda x: x * §, IntegerType())('x')}"
    ),
    _step("condition_of_udf", "df.where(KEEP)", "priced.udf:", "KEEP = udf(lambda x: x > §, 'boolean')('x')"),
    _step(
        "two_of_one_name",
        "df.select(A, B)",
        "priced.udf:<lambda>",
        "one, two = (lambda x: x + 1), (lambda x: x + 2)\n"
        "first, second = (one, two) if § == 1 else (two, one)\n"
        "A, B = udf(first, IntegerType())('x').alias('a'), udf(second, IntegerType())('x').alias('b')",
    ),
    _rows(
        "getattr_of_module",
        "import helped_a\ndef row(x): return getattr(helped_a, 'rate_' + str(1))(x) + helped_a.ZERO",
        "priced.helper:helped_a.rate_1",
        helpers={"helped_a.py": "ZERO = 0\ndef rate_1(x): return x * §\n"},
    ),
    _rows(
        "getattr_constant",
        "import helped_b\ndef row(x): return getattr(helped_b, 'RATE_' + str(x)) + helped_b.ZERO",
        "priced.constant:helped_b.RATE_1",
        helpers={"helped_b.py": "ZERO = 0\nRATE_1 = §\n"},
    ),
    _rows(
        "import_module",
        "def row(x): return importlib.import_module('helped_c').rate(x)",
        "priced.helper:helped_c.rate",
        helpers={"helped_c.py": "def rate(x): return x * §\n"},
    ),
    _rows(
        "import_by_constant",
        "NAME = 'helped_d'\ndef row(x): return importlib.import_module(NAME).rate(x)",
        "priced.helper:helped_d.rate",
        helpers={"helped_d.py": "def rate(x): return x * §\n"},
    ),
    _rows(
        "import_inside",
        "def row(x):\n    import helped_e\n    return helped_e.rate(x)",
        "priced.helper:helped_e.rate",
        helpers={"helped_e.py": "def rate(x): return x * §\n"},
    ),
    _rows(
        "import_star",
        "from helped_f import *\ndef row(x): return rate(x)",
        "priced.helper:helped_f.rate",
        helpers={"helped_f.py": "def rate(x): return x * §\n"},
    ),
    _rows(
        "globals_lookup",
        "def rate_a(x): return x * §\ndef row(x): return globals()['rate_' + 'ab'[0]](x)",
        "priced.helper:rate_a",
    ),
    _rows(
        "module_object",
        "import helped_g\ndef row(x): return helped_g.settings.rate * x",
        "priced.constant:helped_g.settings",
        helpers={"helped_g.py": "class C: pass\nsettings = C()\nsettings.rate = §\n"},
    ),
]
CLASSES = [
    _rows("attribute_around", "class R:\n    _rate_ = §\ndef row(x): return x * R._rate_", "priced.attribute:R._rate_"),
    _rows(
        "attribute_dunder",
        "class R:\n    __rate__ = §\ndef row(x): return x * R.__rate__",
        "priced.attribute:R.__rate__",
    ),
    _rows(
        "fields_of_models",
        "class Field:\n    __slots__ = ('default',)\n    def __init__(self, default): self.default = default\n"
        "class R:\n    __pydantic_fields__ = {'rate': Field(§)}\n    __pydantic_validator__ = (one for one in ())\n"
        "def row(x): return x * R.__pydantic_fields__['rate'].default",
        "priced.attribute:R.__pydantic_fields__",
    ),
    _rows(
        "metaclass",
        "class M(type):\n    def rate(cls): return §\nclass R(metaclass=M): pass\ndef row(x): return x * R.rate()",
        "priced.helper:M.rate",
    ),
    _rows("enum_value", "class R(enum.Enum):\n    A = §\ndef row(x): return x * R.A.value", "priced.constant:R.A"),
    _rows(
        "enum_method",
        "class R(enum.IntEnum):\n    A = 1\n    def times(self, x): return x * §\ndef row(x): return R.A.times(x)",
        "priced.helper:R.times",
    ),
    _rows(
        "dataclass_default",
        "@dataclasses.dataclass\nclass R:\n    a: int = §\ndef row(x): return x * R().a",
        "priced.constant:R.a",
    ),
    _rows(
        "dataclass_factory",
        "@dataclasses.dataclass\nclass R:\n    a: list = dataclasses.field(default_factory=lambda: [§])\n"
        "def row(x): return x * R().a[0]",
        "priced.helper:R.<lambda>",
    ),
    _rows(
        "dataclass_slots",
        "@dataclasses.dataclass(slots=True)\nclass R:\n    a: int = §\ndef row(x): return x * R().a",
        "priced.default:R.__init__.a",
    ),
    _rows(
        "named_tuple_default",
        "class R(typing.NamedTuple):\n    a: int = §\ndef row(x): return x * R().a",
        "priced.udf:",
    ),
    _rows(
        "cached_property",
        "class R:\n    @functools.cached_property\n    def rate(self): return §\nONE = R()\ndef row(x): return x * ONE.rate",
        "priced.helper:R.rate",
    ),
    _rows(
        "partial_method",
        "class R:\n    def base(self, r, x): return r * x\n    rate = functools.partialmethod(base, §)\n"
        "def row(x): return R().rate(x)",
        "priced.constant:R.rate",
    ),
    _rows(
        "base_class",
        "class B:\n    def go(self, x): return x * §\nclass R(B): pass\ndef row(x): return R().go(x)",
        "priced.helper:B.go",
    ),
    _rows(
        "generic_class",
        "class R(typing.Generic[typing.TypeVar('T')]):\n    r = §\ndef row(x): return R[int].r * x",
        "priced.constant:R.r",
    ),
    _rows(
        "property",
        "class R:\n    @property\n    def rate(self): return §\ndef row(x): return x * R().rate",
        "priced.helper:R.rate",
    ),
]
VALUES = [
    _rows("constant", "RATE = §\ndef row(x): return x * RATE", "priced.constant:RATE"),
    _rows("constant_dunder", "__RATES__ = §\ndef row(x): return x * __RATES__", "priced.constant:__RATES__"),
    _rows("dict_of_lambdas", "OPS = {'a': lambda x: x * §}\ndef row(x): return OPS['a'](x)", "priced.helper:<lambda>"),
    _rows(
        "default_dict", "OPS = collections.defaultdict(lambda: §)\ndef row(x): return OPS[x]", "priced.helper:<lambda>"
    ),
    _rows("chain_map", "OPS = collections.ChainMap({'a': §})\ndef row(x): return OPS['a']", "priced.constant:OPS"),
    _rows(
        "mapping_proxy", "OPS = types.MappingProxyType({'a': §})\ndef row(x): return OPS['a']", "priced.constant:OPS"
    ),
    _rows("array", "import numpy as np\nA = np.array([§, 0.5])\ndef row(x): return int(A[0] * x)", "priced.constant:A"),
    _rows(
        "frame",
        "import pandas as pd\nA = pd.DataFrame({'a': [§]})\ndef row(x): return int(A.a[0] * x)",
        "priced.constant:A",
    ),
    _rows("item_getter", "G = operator.itemgetter(§)\ndef row(x): return G([x, x + 1, x + 2])", "priced.constant:G"),
    _rows(
        "context_default",
        "V = contextvars.ContextVar('v')\nV.set(§)\ndef row(x): return x * V.get(§)",
        "priced.helper:row",
    ),
    _rows(
        "environment_used",
        "os.environ['CORPUS_RATE'] = '§'\ndef row(x): return x * int(os.environ['CORPUS_RATE'])",
        "priced.environment:CORPUS_RATE",
    ),
    _rows(
        "environment_imported",
        "from os import environ\nenviron['CORPUS_TWO'] = '§'\ndef row(x): return x * int(environ['CORPUS_TWO'])",
        "priced.environment:CORPUS_TWO",
    ),
    _rows(
        "environment_getenv",
        "from os import getenv as asked\nos.environ['CORPUS_SIX'] = '§'\ndef row(x): return x * int(asked('CORPUS_SIX'))",
        "priced.environment:CORPUS_SIX",
    ),
    _rows(
        "path_below",
        "HERE = os.path.dirname(os.path.abspath(__file__))\nTABLE = HERE + '/rates_§.csv'\ndef row(x): return len(TABLE) + x",
        "priced.constant:TABLE",
    ),
    _rows(
        "path_written",
        "HERE = os.path.dirname(os.path.abspath(__file__))\nTABLE = '/data/v§/rates.csv'\ndef row(x): return len(TABLE + HERE) + x",
        "priced.constant:TABLE",
    ),
    _rows(
        "compiled_library",
        "L = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'librate.so'))\n"
        "def times(x): return L.rate(x)\ndef row(x): return x\nrow.uses = times",
        "priced.constant:L",
        helpers={"librate.c": "int rate(int x) { return x * §; }\n"},
    ),
    _rows(
        "compiled_module",
        "import ratec\ndef row(x): return ratec.rate(x)",
        "priced.compiled:ratec",
        helpers={
            "ratec.c": """
#include <Python.h>
static PyObject *rate(PyObject *self, PyObject *x) { return PyLong_FromLong(PyLong_AsLong(x) * §); }
static PyMethodDef methods[] = {{"rate", rate, METH_O, ""}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "ratec", NULL, -1, methods};
PyMODINIT_FUNC PyInit_ratec(void) { return PyModule_Create(&module); }
"""
        },
    ),
]
PLANS = [
    _step("seed_of_rand", "df.withColumn('y', F.rand(SEEDS[0]))", "seeds", "SEEDS = [§]"),
    _step("column_of_rand", "df.withColumn('y', Y)", "seeds", "Y = F.rand(§)"),
    _step("column_of_randn", "df.withColumn('y', Y)", "seeds", "Y = F.randn(§)"),
    _step("column_of_uuid", "df.withColumn('y', Y)", "seeds", "Y = F.uuid(§)"),
    _step("column_of_shuffle", "df.withColumn('y', Y)", "seeds", "Y = F.shuffle(F.array(F.lit(1), F.lit(2)), §)"),
    _step("column_of_uniform", "df.withColumn('y', Y)", "seeds", "Y = F.uniform(1, 9, §)"),
    _step("column_of_randstr", "df.withColumn('y', Y)", "seeds", "Y = F.randstr(5, §)"),
    _step(
        "sql_of_a_file",
        "spark.sql(Path(HERE, 'query.sql').read_text())",
        "seeds",
        "HERE = os.path.dirname(os.path.abspath(__file__))",
        helpers={"query.sql": "select rand(§) y from range(3)"},
    ),
    _step(
        "sql_repeatable",
        "spark.sql(Path(HERE, 'query.sql').read_text())",
        "seeds",
        "HERE = os.path.dirname(os.path.abspath(__file__))",
        helpers={"query.sql": "select * from (select * from range(9)) tablesample (50 percent) repeatable (§)"},
    ),
    _step("large_seed", "df.withColumn('y', Y)", "seeds", "Y = F.rand(-1234567890123456§)"),
    _step("alias_with_id", "df.select(Y)", "names", "Y = F.col('x').alias('a#§')"),
    _step("alias_with_lambda", "df.select(Y)", "names", "Y = F.col('x').alias('lambda_§')"),
    _step("alias_like_rand", "df.select(Y)", "names", "Y = F.col('x').alias('rand(§)')"),
    _step(
        "java_function",
        "df.selectExpr('corpus_rate(x) y')",
        "priced.jvm:corpus_rate",
        "SparkSession.getActiveSession().udf.registerJavaFunction('corpus_rate', 'corpus.Rate', IntegerType())",
    ),
    _step(
        "java_lambdas",
        "df.selectExpr('corpus_one(x) y')",
        "priced.jvm:corpus_one",
        "sp = SparkSession.getActiveSession()\nloader = sp._jvm.Thread.currentThread().getContextClassLoader()\n"
        "held = loader.loadClass('corpus.Two').getField('F§').get(None)\n"
        "sp._jsparkSession.udf().register('corpus_one', held, sp._jvm.org.apache.spark.sql.types.DataTypes.IntegerType)",
    ),
]
FRAMES = [
    _step("frame_sample", "df.sample(fraction=0.3, seed=4§)", "seeds", is_frame=True),
    _step("frame_large_sample", "df.sample(fraction=0.3, seed=2026111612000000§)", "seeds", is_frame=True),
    _step("frame_sample_by", "df.sampleBy('x', {1: 0.5}, seed=§)", "seeds", is_frame=True),
    _step("frame_split", "df.randomSplit([0.5, 0.5], seed=§)[0]", "seeds", is_frame=True),
    _step("frame_rand", "df.withColumn('y', F.rand(§))", "seeds", is_frame=True),
    _rows(
        "frame_attribute",
        "def row(x): return x * row.rate\nrow.rate = §",
        "priced.attribute:row.rate",
        is_frame=True,
        is_script=True,
    ),
    _rows(
        "frame_global", "RATE = §\ndef row(x): return x * RATE", "priced.constant:RATE", is_frame=True, is_script=True
    ),
    _given(
        "script_method",
        "class P:\n    def __init__(self, r): self.r = r\n    def go(self, x): return x * self.r\n"
        "f = udf(P(§).go, IntegerType())",
        "priced.udf:",
        is_script=True,
    ),
    _rows(
        "script_metaclass",
        "class M(type):\n    def rate(cls): return §\nclass R(metaclass=M): pass\ndef row(x): return x * R.rate()",
        "priced.udf:",
        is_script=True,
    ),
    _rows(
        "script_enum", "class R(enum.Enum):\n    A = §\ndef row(x): return x * R.A.value", "priced.udf:", is_script=True
    ),
]
SAME = [
    _rows("environment_whole", "from os import environ\ndef row(x): return x + len(environ.get('CORPUS_NOT_SET', ''))"),
    _rows(
        "environment_in_script",
        "from os import environ\ndef row(x): return x + len(environ.get('CORPUS_NOT_SET', ''))",
        is_script=True,
    ),
    _rows("environment_copied", "ENV = dict(os.environ)\ndef row(x): return x + len(ENV.get('CORPUS_NOT_SET', ''))"),
    _rows(
        "folder",
        "HERE = os.path.dirname(os.path.abspath(__file__))\ndef row(x): return x + len(open(HERE + '/none').read())",
    ),
    _rows(
        "folder_in_script",
        "HERE = os.path.dirname(os.path.abspath(__file__))\ndef row(x): return x + len(HERE)",
        is_script=True,
    ),
    _rows(
        "folder_of_frame",
        "HERE = os.path.dirname(os.path.abspath(__file__))\ndef row(x): return x + len(HERE)",
        is_script=True,
        is_frame=True,
    ),
    _rows(
        "folder_by_path",
        "HERE = Path(__file__).resolve().parent\nDATA = HERE / 'data'\ndef row(x): return x + len(str(HERE)) + len(str(DATA))",
    ),
    _rows(
        "folder_above",
        "ROOT = Path(__file__).resolve().parents[1]\nALL = {'data': [str(ROOT / 'data')]}\ndef row(x): return x + len(ALL)",
    ),
    _rows("folder_as_url", "URL = Path(__file__).resolve().parent.as_uri()\ndef row(x): return x + len(URL)"),
    _rows(
        "folder_of_helper",
        "from helped_h import HERE\ndef row(x): return x + len(HERE)",
        helpers={"helped_h.py": "import os\nHERE = os.path.dirname(os.path.abspath(__file__))\n"},
    ),
    _step(
        "streams",
        "df.withColumn('z', F.lit(show()))",
        "",
        "OUT, ERR = sys.stdout, sys.stderr\nLOG = open(os.devnull, 'w')\n"
        "def show():\n    print('', end='', file=OUT); print('', end='', file=ERR); LOG.write('')\n    return 1",
    ),
    _step(
        "locks",
        "df.withColumn('z', F.lit(locked()))",
        "",
        "LOCK, READY, LOCAL = threading.RLock(), threading.Event(), threading.local()\n"
        "LOGGER = logging.getLogger(__name__)\ndef locked():\n    with LOCK: return int(READY.is_set()) + len(vars(LOCAL)) + LOGGER.level",
    ),
    _step("context", "df.withColumn('z', F.lit(len(V.get(''))))", "", "V = contextvars.ContextVar('v', default='')"),
    _step("weak", "df.withColumn('z', F.lit(len(CACHE)))", "", "CACHE = weakref.WeakValueDictionary()"),
    _rows(
        "sets",
        "WORDS = {'b', 'a', 'c', 'd', 'e'}\nNESTED = {frozenset({'x', 'y'}): 1}\ndef row(x): return x + ('a' in WORDS) + len(NESTED)",
    ),
    _rows("sets_in_script", "WORDS = {'b', 'a', 'c', 'd', 'e'}\ndef row(x): return x + ('a' in WORDS)", is_script=True),
    _rows("sentinel", "NONE = object()\ndef row(x, y=NONE): return x if y is NONE else y"),
    _rows(
        "dispatch_used",
        "import collections.abc\n@functools.singledispatch\ndef g(x): return 0\n@g.register\n"
        "def _(x: collections.abc.Sized): return 1\ng([])\ndef row(x): return g(x)",
    ),
    _rows(
        "cache_used", "@functools.lru_cache(None)\ndef g(x): return os.getpid() and x\ng(1)\ndef row(x): return g(x)"
    ),
    _step("drawn_seeds", "df.select(F.rand(), F.randn(), F.uuid(), F.expr('rand()'), F.uniform(1, 9)).sample(0.5)", ""),
    _step(
        "drawn_by_spark",
        "df.select(F.rand(), F.shuffle(F.array('id')), F.expr('uuid()'), F.randstr(4))",
        "",
        is_frame=True,
    ),
    _step("drawn_sample_by", "df.sampleBy('x', {1: 0.5})", ""),
    _step(
        "made_up_names",
        "df.select(F.transform(F.array('id'), lambda x: x + 1), udf(str)('x')).groupBy().agg(F.count('*'))",
        "",
    ),
    _step(
        "made_up_views",
        "spark.sql('select id, (select max(id) from {df}) m from {df} where id in (select id from {df})', df=df)",
        "",
    ),
    _step(
        "java_unchanged",
        "df.selectExpr('corpus_same(x) y')",
        "",
        "SparkSession.getActiveSession().udf.registerJavaFunction('corpus_same', 'corpus.Same', IntegerType())",
    ),
    _rows("comment", "# moved\n\ndef row(x):\n    '''Says nothing.'''\n    return x"),
]
PROGRAMS = [*FUNCTIONS, *BY_NAME, *CLASSES, *VALUES, *PLANS, *FRAMES, *SAME]
# Java for the programs that use it: `§` as in the programs.
JAVA = {
    "Rate": "public class Rate implements org.apache.spark.sql.api.java.UDF1<Integer, Integer> {"
    " public Integer call(Integer x) { return Helper.rate(x); } }",
    "Helper": "class Helper { static Integer rate(Integer x) { return x * §; } }",
    "Same": "public class Same implements org.apache.spark.sql.api.java.UDF1<Integer, Integer> {"
    " public Integer call(Integer x) { return x; } }",
    "Two": "import org.apache.spark.sql.api.java.UDF1; public class Two {"
    " public static final UDF1<Integer, Integer> F1 = x -> x + 1; public static final UDF1<Integer, Integer> F2 = x -> x + 2; }",
}
