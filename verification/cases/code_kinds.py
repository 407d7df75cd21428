"""Ways in which code reaches a step, each written once: RATE is 1 in the old code and 2 in the new.

Each text defines `priced`, a function from `orders` to the same rows with a column y, which is x * RATE. `ready` raises
for one row until the case allows it, so that the first run fails with some partitions kept.
"""

from __future__ import annotations

HEAD = """
import collections, dataclasses, enum, functools, importlib, operator, os, types, typing
import numpy as np
import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.types import IntegerType

def ready(x):
    if x == 199 and not os.path.exists(FLAG):
        raise ValueError("not yet")
    return 0
"""

BY_F = "def priced(orders): return orders.withColumn('y', f('x'))\n"
BY_ROW = "def priced(orders): return orders.withColumn('y', udf(row, IntegerType())('x'))\n"

# The name of a kind: the sentence about it, and its text.
KINDS: dict[str, tuple[str, str]] = {
    "plain": ("A function under @udf", f"@udf(IntegerType())\ndef f(x): return x*RATE + ready(x)\n{BY_F}"),
    "bound-method": (
        "udf() of a method whose object holds the rate",
        f"""
class Pricing:
    def __init__(self, rate): self.rate = rate
    def go(self, x): return x*self.rate + ready(x)
f = udf(Pricing(RATE).go, IntegerType())
{BY_F}""",
    ),
    "method-body": (
        "udf() of a method whose body holds the rate",
        f"""
class Pricing:
    def go(self, x): return x*RATE + ready(x)
f = udf(Pricing().go, IntegerType())
{BY_F}""",
    ),
    "registered": (
        "A function registered by name and used in SQL",
        """
def row(x): return x*RATE + ready(x)
SparkSession.getActiveSession().udf.register('case_rate', row, IntegerType())
def priced(orders): return orders.selectExpr('*', 'case_rate(x) as y')
""",
    ),
    "column": (
        "A Column of a udf made at the level of the module",
        """
@udf(IntegerType())
def f(x): return x*RATE + ready(x)
Y = f('x')
def priced(orders): return orders.withColumn('y', Y)
""",
    ),
    "callable-object": (
        "udf() of a callable object",
        f"""
class Pricing:
    def __init__(self, rate): self.rate = rate
    def __call__(self, x): return x*self.rate + ready(x)
f = udf(Pricing(RATE), IntegerType())
{BY_F}""",
    ),
    "partial": (
        "udf() of a functools.partial that holds the rate",
        f"def g(rate, x): return x*rate + ready(x)\nf = udf(functools.partial(g, RATE), IntegerType())\n{BY_F}",
    ),
    "partial-body": (
        "udf() of a functools.partial of a function whose body holds the rate",
        f"def g(one, x): return x*one*RATE + ready(x)\nf = udf(functools.partial(g, 1), IntegerType())\n{BY_F}",
    ),
    "class-attribute": (
        "A class attribute called _rate_",
        f"class Rates:\n    _rate_ = RATE\ndef row(x): return x*Rates._rate_ + ready(x)\n{BY_ROW}",
    ),
    "module-dunder": (
        "A global called __PRICES__",
        f"__PRICES__ = RATE\ndef row(x): return x*__PRICES__ + ready(x)\n{BY_ROW}",
    ),
    "metaclass": (
        "A method of a metaclass",
        f"""
class Meta(type):
    def rate(cls): return RATE
class Rates(metaclass=Meta): pass
def row(x): return x*Rates.rate() + ready(x)
{BY_ROW}""",
    ),
    "function-attribute": (
        "An attribute of the function itself",
        f"def row(x): return x*row.rate + ready(x)\nrow.rate = RATE\n{BY_ROW}",
    ),
    "enum": (
        "The value of an Enum member",
        f"class Rates(enum.Enum):\n    A = RATE\ndef row(x): return x*Rates.A.value + ready(x)\n{BY_ROW}",
    ),
    "int-enum": (
        "The value of an IntEnum member",
        f"class Rates(enum.IntEnum):\n    A = RATE\ndef row(x): return int(x*Rates.A) + ready(x)\n{BY_ROW}",
    ),
    "dataclass": (
        "The default of a dataclass field",
        f"@dataclasses.dataclass\nclass Rates:\n    a: int = RATE\ndef row(x): return x*Rates().a + ready(x)\n{BY_ROW}",
    ),
    "dataclass-factory": (
        "The default factory of a dataclass field",
        f"""
@dataclasses.dataclass
class Rates:
    a: list = dataclasses.field(default_factory=lambda: [RATE])
def row(x): return x*Rates().a[0] + ready(x)
{BY_ROW}""",
    ),
    "dataclass-slots": (
        "The default of a field of a dataclass with slots",
        f"""
@dataclasses.dataclass(slots=True)
class Rates:
    a: int = RATE
def row(x): return x*Rates().a + ready(x)
{BY_ROW}""",
    ),
    "named-tuple": (
        "The default of a NamedTuple field",
        f"class Rates(typing.NamedTuple):\n    a: int = RATE\ndef row(x): return x*Rates().a + ready(x)\n{BY_ROW}",
    ),
    "dict-of-lambdas": (
        "A dict of lambdas",
        f"PRICES = {{'a': lambda x: x*RATE}}\ndef row(x): return PRICES['a'](x) + ready(x)\n{BY_ROW}",
    ),
    "default-dict": (
        "The factory of a defaultdict",
        f"TABLE = collections.defaultdict(lambda: RATE)\ndef row(x): return x*TABLE[0] + ready(x)\n{BY_ROW}",
    ),
    "chain-map": (
        "A value in a ChainMap",
        f"TABLE = collections.ChainMap({{'a': RATE}})\ndef row(x): return x*TABLE['a'] + ready(x)\n{BY_ROW}",
    ),
    "numpy": (
        "A numpy array",
        f"TABLE = np.array([RATE, 0.5])\ndef row(x): return int(TABLE[0]*x) + ready(x)\n{BY_ROW}",
    ),
    "pandas": (
        "A pandas frame",
        f"TABLE = pd.DataFrame({{'a': [RATE]}})\ndef row(x): return int(TABLE.a[0]*x) + ready(x)\n{BY_ROW}",
    ),
    "decorator-object": (
        "A decorator that wraps the function in an object",
        f"""
def priced_by(rate):
    def wrap(f):
        class Wrapped:
            def __call__(self, x): return f(x)*RATE
        return Wrapped()
    return wrap
@priced_by(1)
def plain(x): return x
def row(x): return plain(x) + ready(x)
{BY_ROW}""",
    ),
    "class-method": (
        "A classmethod under another name",
        f"""
class Rates:
    @classmethod
    def price(cls, x): return x*RATE
price = Rates.price
def row(x): return price(x) + ready(x)
{BY_ROW}""",
    ),
    "partial-method": (
        "A partialmethod that holds the rate",
        f"""
class Rates:
    def price(self, rate, x): return rate*x
    go = functools.partialmethod(price, RATE)
def row(x): return Rates().go(x) + ready(x)
{BY_ROW}""",
    ),
    "item-getter": (
        "An operator.itemgetter",
        f"PICK = operator.itemgetter(RATE)\ndef row(x): return PICK([0, x, 2*x]) + ready(x)\n{BY_ROW}",
    ),
    "inner-default": (
        "The default argument of a function inside the step",
        """
def priced(orders):
    def row(x, rate=RATE): return x*rate + ready(x)
    return orders.withColumn('y', udf(row, IntegerType())('x'))
""",
    ),
    "base-class": (
        "A method of a base class",
        f"""
class Base:
    def go(self, x): return x*RATE
class Pricing(Base): pass
def row(x): return Pricing().go(x) + ready(x)
{BY_ROW}""",
    ),
    "generic-class": (
        "An attribute of a generic class",
        f"""
class Rates(typing.Generic[typing.TypeVar('T')]):
    rate = RATE
def row(x): return Rates[int].rate*x + ready(x)
{BY_ROW}""",
    ),
    "temp-view": (
        "A temporary view that holds a udf, which the step reads by name",
        """
def row(x): return x*RATE + ready(x)
_spark = SparkSession.getActiveSession()
_spark.read.parquet(SOURCE).withColumn('y', udf(row, IntegerType())('x')).createOrReplaceTempView('case_priced')
def priced(orders): return orders.sparkSession.table('case_priced')
""",
    ),
}

# The same, for ways that nobody had tried: what the plan holds of them is a name, an id or a value.
MORE_KINDS: dict[str, tuple[str, str]] = {
    "broadcast": (
        "The value of a broadcast variable",
        f"""
HELD = SparkSession.getActiveSession().sparkContext.broadcast({{'a': RATE}})
def row(x): return x*HELD.value['a'] + ready(x)
{BY_ROW}""",
    ),
    "sql-function": (
        "The body of a temporary SQL function",
        """
SparkSession.getActiveSession().sql(
    'create or replace temporary function case_price(x int) returns int return x * RATE')
check = udf(lambda x: ready(x), IntegerType())
def priced(orders): return orders.selectExpr('*', 'case_price(x) as y').withColumn('z', check('x'))
""",
    ),
    "setting": (
        "A setting of the session that the step reads",
        """
SparkSession.getActiveSession().conf.set('case.rate', 'RATE')
check = udf(lambda x: ready(x), IntegerType())
def priced(orders):
    rate = int(orders.sparkSession.conf.get('case.rate'))
    return orders.selectExpr('*', f'x * {rate} as y').withColumn('z', check('x'))
""",
    ),
    "environment": (
        "A variable of the environment that the step reads",
        """
os.environ['CASE_RATE'] = 'RATE'
check = udf(lambda x: ready(x), IntegerType())
def priced(orders):
    return orders.selectExpr('*', f"x * {os.environ['CASE_RATE']} as y").withColumn('z', check('x'))
""",
    ),
    "environment-in-a-function": (
        "A variable of the environment that a Python function was given when it was made",
        f"""
os.environ['CASE_RATE'] = 'RATE'
def made():
    rate = int(os.environ['CASE_RATE'])
    return lambda x: x*rate + ready(x)
f = udf(made(), IntegerType())
{BY_F}""",
    ),
    "pandas-function": (
        "A global that a pandas function uses",
        """
import pandas as pd
from pyspark.sql.functions import pandas_udf
HELD = [RATE]
@pandas_udf('int')
def f(x: pd.Series) -> pd.Series: return x.map(lambda one: one*HELD[0] + ready(one)).astype('int32')
def priced(orders): return orders.withColumn('y', f('x'))
""",
    ),
    "map-in-pandas": (
        "A partial given to mapInPandas",
        """
def go(rate, batches):
    for batch in batches:
        yield batch.assign(y=[int(one*rate) for one in batch.x])[['id', 'x', 'k', 'y']]
check = udf(lambda x: ready(x), IntegerType())
def priced(orders):
    made = orders.mapInPandas(functools.partial(go, RATE), 'id long, x int, k long, y int')
    return made.withColumn('z', check('x'))
""",
    ),
    "table-function": (
        "A registered Python table function",
        """
from pyspark.sql.functions import udtf
@udtf(returnType='y int')
class Priced:
    def eval(self, x: int): yield x*RATE,
SparkSession.getActiveSession().udtf.register('case_priced_rows', Priced)
check = udf(lambda x: ready(x), IntegerType())
def priced(orders):
    made = orders.sparkSession.sql('select o.*, p.y from {o} o, lateral case_priced_rows(o.x) p', o=orders)
    return made.withColumn('z', check('x'))
""",
    ),
    "temp-view-of-values": (
        "A literal in a temporary view that the step reads by name",
        """
SparkSession.getActiveSession().sql('select RATE as rate').createOrReplaceTempView('case_rates')
check = udf(lambda x: ready(x), IntegerType())
def priced(orders):
    both = orders.crossJoin(orders.sparkSession.table('case_rates'))
    return both.selectExpr('*', 'x * rate as y').withColumn('z', check('x'))
""",
    ),
    "expression": (
        "A Column without Python at the level of the module",
        """
from pyspark.sql import functions as F
Y = F.col('x') * RATE
check = udf(lambda x: ready(x), IntegerType())
def priced(orders): return orders.withColumn('y', Y).withColumn('z', check('x'))
""",
    ),
    "sql-text": (
        "A SQL text in a global dict",
        """
TEXTS = {'price': 'x * RATE as y'}
check = udf(lambda x: ready(x), IntegerType())
def priced(orders): return orders.selectExpr('*', TEXTS['price']).withColumn('z', check('x'))
""",
    ),
    "nested-partial": (
        "A partial of a partial under functools.wraps",
        f"""
def g(rate, x): return x*rate + ready(x)
inner = functools.partial(functools.partial(g), RATE)
@functools.wraps(g)
def outer(x): return inner(x)
f = udf(outer, IntegerType())
{BY_F}""",
    ),
    "closure-of-a-closure": (
        "A value two closures deep",
        f"""
def one(rate):
    def two():
        def three(x): return x*rate + ready(x)
        return three
    return two
f = udf(one(RATE)(), IntegerType())
{BY_F}""",
    ),
    "property": (
        "A property of a class with slots",
        f"""
class Rates:
    __slots__ = ('_rate',)
    def __init__(self): self._rate = RATE
    @property
    def rate(self): return self._rate
HELD = Rates()
def row(x): return x*HELD.rate + ready(x)
{BY_ROW}""",
    ),
    "init-subclass": (
        "A class attribute set by __init_subclass__",
        f"""
class Base:
    def __init_subclass__(cls, rate=0): cls.rate = rate
class Pricing(Base, rate=RATE): pass
def row(x): return x*Pricing.rate + ready(x)
{BY_ROW}""",
    ),
    "generator-of-columns": (
        "A generator expression over a global list",
        """
HELD = [RATE]
check = udf(lambda x: ready(x), IntegerType())
def priced(orders):
    return orders.selectExpr('*', *(f'x * {one} as y' for one in HELD)).withColumn('z', check('x'))
""",
    ),
}

# Code in a module of the user's own, which the step's module imports as `case_helpers`.
HELPED: dict[str, tuple[str, str, str]] = {
    "singledispatch": (
        "An implementation registered with functools.singledispatch",
        """
import functools
@functools.singledispatch
def price(x): return -1
@price.register
def _(x: int): return x*RATE
""",
        f"import case_helpers\ndef row(x): return case_helpers.price(x) + ready(x)\n{BY_ROW}",
    ),
    "singledispatch-default": (
        "The default implementation of functools.singledispatch",
        "import functools\n@functools.singledispatch\ndef price(x): return x*RATE\n",
        f"import case_helpers\ndef row(x): return case_helpers.price(x) + ready(x)\n{BY_ROW}",
    ),
    "getattr-of-a-module": (
        "A helper that getattr finds in a module",
        "ZERO = 0\ndef rate_a(x): return x*RATE\n",
        f"""
import case_helpers
def row(x): return getattr(case_helpers, 'rate_' + 'a')(x) + case_helpers.ZERO + ready(x)
{BY_ROW}""",
    ),
    "lru-cache": (
        "udf() of a function under lru_cache",
        "import functools\n@functools.lru_cache(None)\ndef g(x): return x*RATE\n",
        f"from case_helpers import g\ndef row(x): return g(x) + ready(x)\n{BY_ROW}",
    ),
    "star-import": (
        "A helper that came by import *",
        "def price(x): return x*RATE\n",
        f"from case_helpers import *\ndef row(x): return price(x) + ready(x)\n{BY_ROW}",
    ),
    "import-inside": (
        "A helper that the function imports when it runs",
        "def price(x): return x*RATE\n",
        f"def row(x):\n    import case_helpers\n    return case_helpers.price(x) + ready(x)\n{BY_ROW}",
    ),
    "import-module": (
        "A helper that importlib.import_module finds when the function runs",
        "def price(x): return x*RATE\n",
        f"def row(x): return importlib.import_module('case_helpers').price(x) + ready(x)\n{BY_ROW}",
    ),
    "cached-property": (
        "A cached_property of an object",
        """
import functools
class Rates:
    @functools.cached_property
    def rate(self): return RATE
rates = Rates()
""",
        f"import case_helpers\ndef row(x): return x*case_helpers.rates.rate + ready(x)\n{BY_ROW}",
    ),
    "module-object": (
        "An attribute of an object of a helper module",
        "class Settings: pass\nsettings = Settings()\nsettings.rate = RATE\n",
        f"import case_helpers\ndef row(x): return case_helpers.settings.rate*x + ready(x)\n{BY_ROW}",
    ),
}
