"""Changes of values, of what a plan holds, and of frames that a script gives."""

from __future__ import annotations

from identity_corpus.programs import given, rows, step

VALUES = [
    rows("constant", "RATE = §\ndef row(x): return x * RATE", "priced.constant:RATE"),
    rows("constant_dunder", "__RATES__ = §\ndef row(x): return x * __RATES__", "priced.constant:__RATES__"),
    rows("dict_of_lambdas", "OPS = {'a': lambda x: x * §}\ndef row(x): return OPS['a'](x)", "priced.helper:<lambda>"),
    rows(
        "default_dict", "OPS = collections.defaultdict(lambda: §)\ndef row(x): return OPS[x]", "priced.helper:<lambda>"
    ),
    rows("chain_map", "OPS = collections.ChainMap({'a': §})\ndef row(x): return OPS['a']", "priced.constant:OPS"),
    rows("mapping_proxy", "OPS = types.MappingProxyType({'a': §})\ndef row(x): return OPS['a']", "priced.constant:OPS"),
    rows("array", "import numpy as np\nA = np.array([§, 0.5])\ndef row(x): return int(A[0] * x)", "priced.constant:A"),
    rows(
        "frame",
        "import pandas as pd\nA = pd.DataFrame({'a': [§]})\ndef row(x): return int(A.a[0] * x)",
        "priced.constant:A",
    ),
    rows("item_getter", "G = operator.itemgetter(§)\ndef row(x): return G([x, x + 1, x + 2])", "priced.constant:G"),
    rows(
        "context_default",
        "V = contextvars.ContextVar('v')\nV.set(§)\ndef row(x): return x * V.get(§)",
        "priced.helper:row",
    ),
    rows(
        "environment_used",
        "os.environ['CORPUS_RATE'] = '§'\ndef row(x): return x * int(os.environ['CORPUS_RATE'])",
        "priced.environment:CORPUS_RATE",
    ),
    rows(
        "environment_imported",
        "from os import environ\nenviron['CORPUS_TWO'] = '§'\ndef row(x): return x * int(environ['CORPUS_TWO'])",
        "priced.environment:CORPUS_TWO",
    ),
    rows(
        "environment_getenv",
        "from os import getenv as asked\nos.environ['CORPUS_SIX'] = '§'\n"
        "def row(x): return x * int(asked('CORPUS_SIX'))",
        "priced.environment:CORPUS_SIX",
    ),
    rows(
        "path_below",
        "HERE = os.path.dirname(os.path.abspath(__file__))\n"
        "TABLE = HERE + '/rates_§.csv'\ndef row(x): return len(TABLE) + x",
        "priced.constant:TABLE",
    ),
    rows(
        "path_written",
        "HERE = os.path.dirname(os.path.abspath(__file__))\n"
        "TABLE = '/data/v§/rates.csv'\ndef row(x): return len(TABLE + HERE) + x",
        "priced.constant:TABLE",
    ),
    rows(
        "compiled_library",
        "L = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'librate.so'))\n"
        "def times(x): return L.rate(x)\ndef row(x): return x\nrow.uses = times",
        "priced.constant:L",
        helpers={"librate.c": "int rate(int x) { return x * §; }\n"},
    ),
    rows(
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
    step("seed_of_rand", "df.withColumn('y', F.rand(SEEDS[0]))", "seeds", "SEEDS = [§]"),
    step("column_of_rand", "df.withColumn('y', Y)", "seeds", "Y = F.rand(§)"),
    step("column_of_randn", "df.withColumn('y', Y)", "seeds", "Y = F.randn(§)"),
    step("column_of_uuid", "df.withColumn('y', Y)", "seeds", "Y = F.uuid(§)"),
    step("column_of_shuffle", "df.withColumn('y', Y)", "seeds", "Y = F.shuffle(F.array(F.lit(1), F.lit(2)), §)"),
    step("column_of_uniform", "df.withColumn('y', Y)", "seeds", "Y = F.uniform(1, 9, §)"),
    step("column_of_randstr", "df.withColumn('y', Y)", "seeds", "Y = F.randstr(5, §)"),
    step(
        "sql_of_a_file",
        "spark.sql(Path(HERE, 'query.sql').read_text())",
        "seeds",
        "HERE = os.path.dirname(os.path.abspath(__file__))",
        helpers={"query.sql": "select rand(§) y from range(3)"},
    ),
    step(
        "sql_repeatable",
        "spark.sql(Path(HERE, 'query.sql').read_text())",
        "seeds",
        "HERE = os.path.dirname(os.path.abspath(__file__))",
        helpers={"query.sql": "select * from (select * from range(9)) tablesample (50 percent) repeatable (§)"},
    ),
    step("large_seed", "df.withColumn('y', Y)", "seeds", "Y = F.rand(-1234567890123456§)"),
    step("alias_with_id", "df.select(Y)", "names", "Y = F.col('x').alias('a#§')"),
    step("alias_with_lambda", "df.select(Y)", "names", "Y = F.col('x').alias('lambda_§')"),
    step("alias_like_rand", "df.select(Y)", "names", "Y = F.col('x').alias('rand(§)')"),
    step(
        "java_function",
        "df.selectExpr('corpus_rate(x) y')",
        "priced.jvm:corpus_rate",
        "SparkSession.getActiveSession().udf.registerJavaFunction('corpus_rate', 'corpus.Rate', IntegerType())",
    ),
    step(
        "java_lambdas",
        "df.selectExpr('corpus_one(x) y')",
        "priced.jvm:corpus_one",
        "sp = SparkSession.getActiveSession()\nloader = sp._jvm.Thread.currentThread().getContextClassLoader()\n"
        "held = loader.loadClass('corpus.Two').getField('F§').get(None)\n"
        "sp._jsparkSession.udf().register('corpus_one', held, "
        "sp._jvm.org.apache.spark.sql.types.DataTypes.IntegerType)",
    ),
]
FRAMES = [
    step("frame_sample", "df.sample(fraction=0.3, seed=4§)", "seeds", is_frame=True),
    step("frame_large_sample", "df.sample(fraction=0.3, seed=2026111612000000§)", "seeds", is_frame=True),
    step("frame_sample_by", "df.sampleBy('x', {1: 0.5}, seed=§)", "seeds", is_frame=True),
    step("frame_split", "df.randomSplit([0.5, 0.5], seed=§)[0]", "seeds", is_frame=True),
    step("frame_rand", "df.withColumn('y', F.rand(§))", "seeds", is_frame=True),
    rows(
        "frame_attribute",
        "def row(x): return x * row.rate\nrow.rate = §",
        "priced.attribute:row.rate",
        is_frame=True,
        is_script=True,
    ),
    rows(
        "frame_global", "RATE = §\ndef row(x): return x * RATE", "priced.constant:RATE", is_frame=True, is_script=True
    ),
    given(
        "script_method",
        "class P:\n    def __init__(self, r): self.r = r\n    def go(self, x): return x * self.r\n"
        "f = udf(P(§).go, IntegerType())",
        "priced.udf:",
        is_script=True,
    ),
    rows(
        "script_metaclass",
        "class M(type):\n    def rate(cls): return §\nclass R(metaclass=M): pass\ndef row(x): return x * R.rate()",
        "priced.udf:",
        is_script=True,
    ),
    rows(
        "script_enum", "class R(enum.Enum):\n    A = §\ndef row(x): return x * R.A.value", "priced.udf:", is_script=True
    ),
]
# Java for the programs that use it: `§` as in the programs.
JAVA = {
    "Rate": "public class Rate implements org.apache.spark.sql.api.java.UDF1<Integer, Integer> {"
    " public Integer call(Integer x) { return Helper.rate(x); } }",
    "Helper": "class Helper { static Integer rate(Integer x) { return x * §; } }",
    "Same": "public class Same implements org.apache.spark.sql.api.java.UDF1<Integer, Integer> {"
    " public Integer call(Integer x) { return x; } }",
    "Two": "import org.apache.spark.sql.api.java.UDF1; public class Two {"
    " public static final UDF1<Integer, Integer> F1 = x -> x + 1;"
    " public static final UDF1<Integer, Integer> F2 = x -> x + 2; }",
}
