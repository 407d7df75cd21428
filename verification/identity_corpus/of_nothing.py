"""Programs without a change: what differs between two folders, processes and users must not be seen as one."""

from __future__ import annotations

from identity_corpus.programs import rows, step

SAME = [
    rows("environment_whole", "from os import environ\ndef row(x): return x + len(environ.get('CORPUS_NOT_SET', ''))"),
    rows(
        "environment_in_script",
        "from os import environ\ndef row(x): return x + len(environ.get('CORPUS_NOT_SET', ''))",
        is_script=True,
    ),
    rows("environment_copied", "ENV = dict(os.environ)\ndef row(x): return x + len(ENV.get('CORPUS_NOT_SET', ''))"),
    rows(
        "folder",
        "HERE = os.path.dirname(os.path.abspath(__file__))\ndef row(x): return x + len(open(HERE + '/none').read())",
    ),
    rows(
        "folder_in_script",
        "HERE = os.path.dirname(os.path.abspath(__file__))\ndef row(x): return x + len(HERE)",
        is_script=True,
    ),
    rows(
        "folder_of_frame",
        "HERE = os.path.dirname(os.path.abspath(__file__))\ndef row(x): return x + len(HERE)",
        is_script=True,
        is_frame=True,
    ),
    rows(
        "folder_by_path",
        "HERE = Path(__file__).resolve().parent\nDATA = HERE / 'data'\n"
        "def row(x): return x + len(str(HERE)) + len(str(DATA))",
    ),
    rows(
        "folder_above",
        "ROOT = Path(__file__).resolve().parents[1]\n"
        "ALL = {'data': [str(ROOT / 'data')]}\ndef row(x): return x + len(ALL)",
    ),
    rows("folder_as_url", "URL = Path(__file__).resolve().parent.as_uri()\ndef row(x): return x + len(URL)"),
    rows(
        "folder_of_helper",
        "from helped_h import HERE\ndef row(x): return x + len(HERE)",
        helpers={"helped_h.py": "import os\nHERE = os.path.dirname(os.path.abspath(__file__))\n"},
    ),
    step(
        "streams",
        "df.withColumn('z', F.lit(show()))",
        "",
        "OUT, ERR = sys.stdout, sys.stderr\nLOG = open(os.devnull, 'w')\n"
        "def show():\n    print('', end='', file=OUT); print('', end='', file=ERR); LOG.write('')\n    return 1",
    ),
    step(
        "locks",
        "df.withColumn('z', F.lit(locked()))",
        "",
        "LOCK, READY, LOCAL = threading.RLock(), threading.Event(), threading.local()\n"
        "LOGGER = logging.getLogger(__name__)\n"
        "def locked():\n    with LOCK: return int(READY.is_set()) + len(vars(LOCAL)) + LOGGER.level",
    ),
    step("context", "df.withColumn('z', F.lit(len(V.get(''))))", "", "V = contextvars.ContextVar('v', default='')"),
    step("weak", "df.withColumn('z', F.lit(len(CACHE)))", "", "CACHE = weakref.WeakValueDictionary()"),
    rows(
        "sets",
        "WORDS = {'b', 'a', 'c', 'd', 'e'}\nNESTED = {frozenset({'x', 'y'}): 1}\n"
        "def row(x): return x + ('a' in WORDS) + len(NESTED)",
    ),
    rows("sets_in_script", "WORDS = {'b', 'a', 'c', 'd', 'e'}\ndef row(x): return x + ('a' in WORDS)", is_script=True),
    rows("sentinel", "NONE = object()\ndef row(x, y=NONE): return x if y is NONE else y"),
    rows(
        "dispatch_used",
        "import collections.abc\n@functools.singledispatch\ndef g(x): return 0\n@g.register\n"
        "def _(x: collections.abc.Sized): return 1\ng([])\ndef row(x): return g(x)",
    ),
    rows("cache_used", "@functools.lru_cache(None)\ndef g(x): return os.getpid() and x\ng(1)\ndef row(x): return g(x)"),
    step("drawn_seeds", "df.select(F.rand(), F.randn(), F.uuid(), F.expr('rand()'), F.uniform(1, 9)).sample(0.5)", ""),
    step(
        "drawn_by_spark",
        "df.select(F.rand(), F.shuffle(F.array('id')), F.expr('uuid()'), F.randstr(4))",
        "",
        is_frame=True,
    ),
    step("drawn_sample_by", "df.sampleBy('x', {1: 0.5})", ""),
    step(
        "made_up_names",
        "df.select(F.transform(F.array('id'), lambda x: x + 1), udf(str)('x')).groupBy().agg(F.count('*'))",
        "",
    ),
    step(
        "made_up_views",
        "spark.sql('select id, (select max(id) from {df}) m from {df} where id in (select id from {df})', df=df)",
        "",
    ),
    step(
        "java_unchanged",
        "df.selectExpr('corpus_same(x) y')",
        "",
        "SparkSession.getActiveSession().udf.registerJavaFunction('corpus_same', 'corpus.Same', IntegerType())",
    ),
    rows("comment", "# moved\n\ndef row(x):\n    '''Says nothing.'''\n    return x"),
]
