"""Changes of Python code, and of what it reaches by a name that is known only when it runs."""

from __future__ import annotations

from identity_corpus.programs import given, rows, step

FUNCTIONS = [
    given("plain", "@udf(IntegerType())\ndef f(x): return x * §", "priced.helper:f"),
    given(
        "method_state",
        "class P:\n    def __init__(self, r): self.r = r\n    def go(self, x): return x * self.r\n"
        "f = udf(P(§).go, IntegerType())",
        "priced.udf:",
    ),
    given(
        "method_body",
        "class P:\n    def go(self, x): return x * §\nf = udf(P().go, IntegerType())",
        "priced.attribute:helper P.go",
    ),
    given(
        "callable_state",
        "class P:\n    def __init__(self, r): self.r = r\n    def __call__(self, x): return x * self.r\n"
        "f = udf(P(§), IntegerType())",
        "priced.udf:",
    ),
    given(
        "callable_body",
        "class P:\n    def __call__(self, x): return x * §\nf = udf(P(), IntegerType())",
        "priced.attribute:helper P.__call__",
    ),
    given("partial_bound", "def g(r, x): return x * r\nf = udf(functools.partial(g, §), IntegerType())", "priced.udf:"),
    given(
        "partial_body",
        "def g(r, x): return x * r * §\nf = udf(functools.partial(g, 3), IntegerType())",
        "priced.attribute:helper g",
    ),
    given(
        "cached",
        "@functools.lru_cache(None)\ndef g(x): return x * §\nf = udf(g, IntegerType())",
        "priced.attribute:helper g",
    ),
    given(
        "class_method",
        "class P:\n    @classmethod\n    def go(cls, x): return x * §\nf = udf(P.go, IntegerType())",
        "priced.attribute:helper P.go",
    ),
    given(
        "pandas_function",
        "import pandas as pd\n@F.pandas_udf(LongType())\ndef f(x: pd.Series) -> pd.Series: return x * §",
        "priced.helper:f",
    ),
    given(
        "closure",
        "def made(r):\n    def inner(x): return x * r\n    return inner\nf = udf(made(§), IntegerType())",
        "priced.closure:made.<locals>.inner.r",
    ),
    given("lambda_default", "f = udf(lambda x, r=§: x * r, IntegerType())", "priced.default:<lambda>.r"),
    rows(
        "dispatched",
        "@functools.singledispatch\ndef g(x): return 0\n@g.register\ndef _(x: int): return x * §\n"
        "def row(x): return g(x)",
        "priced.udf:",
    ),
    rows("dispatch_default", "@functools.singledispatch\ndef g(x): return §\ndef row(x): return g(x)", "priced.udf:"),
    rows(
        "dispatched_method",
        "class R:\n    @functools.singledispatchmethod\n    def go(self, x): return 0\n    @go.register\n"
        "    def _(self, x: int): return x * §\ndef row(x): return R().go(x)",
        "priced.udf:",
    ),
    rows("function_attribute", "def row(x): return x * row.rate\nrow.rate = §", "priced.attribute:row.rate"),
    rows(
        "wrapped_by_own",
        "def deco(f):\n    @functools.wraps(f)\n    def call(x): return f(x) * §\n    return call\n"
        "@deco\ndef row(x): return x",
        "priced.helper:deco.<locals>.call",
    ),
    rows(
        "wrapped_in_object",
        "def deco(n):\n    def w(f):\n        class W:\n            def __call__(self, x): return f(x) * n\n"
        "        return W()\n    return w\n@deco(§)\ndef inner(x): return x\ndef row(x): return inner(x)",
        "priced.udf:",
    ),
    rows("recursive", "def row(x): return § if not x or x < 2 else row(x - 2)", "priced.helper:row"),
    rows("keyword_default", "def row(x, *, rate=§): return x * rate", "priced.default:row.rate"),
    step("inner_function", "df.withColumn('y', udf(lambda x: x * §, IntegerType())('x'))", "priced.code"),
    step(
        "map_in_pandas",
        "df.mapInPandas(many, 'id long, x int')",
        "priced.helper:many",
        "def many(frames):\n    for one in frames: yield one[one.x > §]",
    ),
    step(
        "apply_in_pandas",
        "df.groupBy('id').applyInPandas(one, 'id long, x int')",
        "priced.helper:one",
        "def one(frame): return frame[frame.x > §]",
    ),
    step(
        "udtf",
        "df.select('id', 'x').join(F.udtf(Many, returnType='n int')(F.lit(3)))",
        "priced.udf:",
        "class Many:\n    def eval(self, n):\n        yield (n * §,)",
    ),
]
BY_NAME = [
    step(
        "registered",
        "df.selectExpr('*', 'rate_by_name(x) as y')",
        "priced.udf:rate_by_name",
        "def rate(x): return x * §\nSparkSession.getActiveSession().udf.register('rate_by_name', rate, IntegerType())",
    ),
    step(
        "registered_method",
        "df.selectExpr('*', 'rate_of_method(x) as y')",
        "priced.udf:rate_of_method",
        "class P:\n    r = §\n    def go(self, x): return x * self.r\n"
        "SparkSession.getActiveSession().udf.register('rate_of_method', P().go, IntegerType())",
    ),
    step(
        "registered_in_view",
        "spark.table('corpus_view')",
        "priced.udf:",
        "sp = SparkSession.getActiveSession()\n"
        "sp.range(3).select(udf(lambda x: x * §, LongType())('id').alias('y')).createOrReplaceTempView('corpus_view')",
    ),
    step(
        "column_of_udf",
        "df.withColumn('y', Y)",
        "priced.udf:f",
        "@udf(IntegerType())\ndef f(x): return x * §\nY = f('x')",
    ),
    step(
        "column_of_method",
        "df.withColumn('y', Y)",
        "priced.udf:",
        "class P:\n    def __init__(self, r): self.r = r\n"
        "    def go(self, x): return x * self.r\nY = udf(P(§).go, IntegerType())('x')",
    ),
    step("column_in_dict", "df.withColumns(YS)", "priced.udf:", "YS = {'y': udf(lambda x: x * §, IntegerType())('x')}"),
    step("condition_of_udf", "df.where(KEEP)", "priced.udf:", "KEEP = udf(lambda x: x > §, 'boolean')('x')"),
    step(
        "two_of_one_name",
        "df.select(A, B)",
        "priced.udf:<lambda>",
        "one, two = (lambda x: x + 1), (lambda x: x + 2)\n"
        "first, second = (one, two) if § == 1 else (two, one)\n"
        "A, B = udf(first, IntegerType())('x').alias('a'), udf(second, IntegerType())('x').alias('b')",
    ),
    rows(
        "getattr_of_module",
        "import helped_a\ndef row(x): return getattr(helped_a, 'rate_' + str(1))(x) + helped_a.ZERO",
        "priced.helper:helped_a.rate_1",
        helpers={"helped_a.py": "ZERO = 0\ndef rate_1(x): return x * §\n"},
    ),
    rows(
        "getattr_constant",
        "import helped_b\ndef row(x): return getattr(helped_b, 'RATE_' + str(x)) + helped_b.ZERO",
        "priced.constant:helped_b.RATE_1",
        helpers={"helped_b.py": "ZERO = 0\nRATE_1 = §\n"},
    ),
    rows(
        "import_module",
        "def row(x): return importlib.import_module('helped_c').rate(x)",
        "priced.compiled:helped_c",
        helpers={"helped_c.py": "def rate(x): return x * §\n"},
    ),
    rows(
        "import_by_constant",
        "NAME = 'helped_d'\ndef row(x): return importlib.import_module(NAME).rate(x)",
        "priced.compiled:helped_d",
        helpers={"helped_d.py": "def rate(x): return x * §\n"},
    ),
    rows(
        "import_inside",
        "def row(x):\n    import helped_e\n    return helped_e.rate(x)",
        "priced.helper:helped_e.rate",
        helpers={"helped_e.py": "def rate(x): return x * §\n"},
    ),
    rows(
        "import_star",
        "from helped_f import *\ndef row(x): return rate(x)",
        "priced.helper:helped_f.rate",
        helpers={"helped_f.py": "def rate(x): return x * §\n"},
    ),
    rows(
        "globals_lookup",
        "def rate_a(x): return x * §\ndef row(x): return globals()['rate_' + 'ab'[0]](x)",
        "priced.helper:rate_a",
    ),
    rows(
        "module_object",
        "import helped_g\ndef row(x): return helped_g.settings.rate * x",
        "priced.constant:helped_g.settings",
        helpers={"helped_g.py": "class C: pass\nsettings = C()\nsettings.rate = §\n"},
    ),
]
CLASSES = [
    rows("attribute_around", "class R:\n    _rate_ = §\ndef row(x): return x * R._rate_", "priced.attribute:R._rate_"),
    rows(
        "attribute_dunder",
        "class R:\n    __rate__ = §\ndef row(x): return x * R.__rate__",
        "priced.attribute:R.__rate__",
    ),
    rows(
        "fields_of_models",
        "class Field:\n    __slots__ = ('default',)\n    def __init__(self, default): self.default = default\n"
        "class R:\n    __pydantic_fields__ = {'rate': Field(§)}\n    __pydantic_validator__ = (one for one in ())\n"
        "def row(x): return x * R.__pydantic_fields__['rate'].default",
        "priced.attribute:R.__pydantic_fields__",
    ),
    rows(
        "metaclass",
        "class M(type):\n    def rate(cls): return §\nclass R(metaclass=M): pass\ndef row(x): return x * R.rate()",
        "priced.helper:M.rate",
    ),
    rows("enum_value", "class R(enum.Enum):\n    A = §\ndef row(x): return x * R.A.value", "priced.constant:R.A"),
    rows(
        "enum_method",
        "class R(enum.IntEnum):\n    A = 1\n    def times(self, x): return x * §\ndef row(x): return R.A.times(x)",
        "priced.helper:R.times",
    ),
    rows(
        "dataclass_default",
        "@dataclasses.dataclass\nclass R:\n    a: int = §\ndef row(x): return x * R().a",
        "priced.constant:R.a",
    ),
    rows(
        "dataclass_factory",
        "@dataclasses.dataclass\nclass R:\n    a: list = dataclasses.field(default_factory=lambda: [§])\n"
        "def row(x): return x * R().a[0]",
        "priced.helper:R.<lambda>",
    ),
    rows(
        "dataclass_slots",
        "@dataclasses.dataclass(slots=True)\nclass R:\n    a: int = §\ndef row(x): return x * R().a",
        "priced.default:R.__init__.a",
    ),
    rows(
        "named_tuple_default",
        "class R(typing.NamedTuple):\n    a: int = §\ndef row(x): return x * R().a",
        "priced.udf:",
    ),
    rows(
        "cached_property",
        "class R:\n    @functools.cached_property\n    def rate(self): return §\n"
        "ONE = R()\ndef row(x): return x * ONE.rate",
        "priced.helper:R.rate",
    ),
    rows(
        "partial_method",
        "class R:\n    def base(self, r, x): return r * x\n    rate = functools.partialmethod(base, §)\n"
        "def row(x): return R().rate(x)",
        "priced.constant:R.rate",
    ),
    rows(
        "base_class",
        "class B:\n    def go(self, x): return x * §\nclass R(B): pass\ndef row(x): return R().go(x)",
        "priced.helper:B.go",
    ),
    rows(
        "generic_class",
        "class R(typing.Generic[typing.TypeVar('T')]):\n    r = §\ndef row(x): return R[int].r * x",
        "priced.constant:R.r",
    ),
    rows(
        "property",
        "class R:\n    @property\n    def rate(self): return §\ndef row(x): return x * R().rate",
        "priced.helper:R.rate",
    ),
]
