// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

import org.apache.spark.QueryContext;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.ExpressionWithRandomSeed;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedLambdaVariable;
import org.apache.spark.sql.catalyst.expressions.PythonFuncExpression;
import org.apache.spark.sql.catalyst.expressions.ScalaUDF;
import org.apache.spark.sql.catalyst.expressions.TimeZoneAwareExpression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationDef;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.Range;
import org.apache.spark.sql.catalyst.plans.logical.Sample;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;

import scala.Product;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What an analysed plan does, as text that is equal in every application: every operator and expression with all its arguments. Left out is what says
 * nothing about the rows: ids (numbered by first appearance), seeds the analyser drew, which files are read, the Python code (it is judged by itself),
 * the time zone (a setting of its own), line numbers, statistics. Data that stands in the plan itself counts by its bytes. What is left out although a
 * user may have written it is collected beside the text: see `PlanTold`.
 */
public final class PlanShape {
  /** Options of a file source that say where it lies: which files are read is told by `Sources`. */
  private static final List<String> WHERE = List.of("path", "paths", "basePath", "basepath");

  private final Map<Object, Integer> ids = new HashMap<>();
  /** The Python code that the text leaves out, in the order in which it stands in the plan, with what the plan calls it. */
  final List<Map.Entry<String, PythonFunction>> functions = new ArrayList<>();
  /** Functions of Java and Scala, with what the plan calls them: the text has their class. */
  final List<Map.Entry<String, Object>> compiled = new ArrayList<>();
  /** Seeds, and names that were masked and that Spark did not make up. */
  final Seeds seeds = new Seeds();
  final ChosenNames names = new ChosenNames();
  /** What is said about columns, with its place in the plan. */
  final List<String> metadata = new ArrayList<>();
  private int columns = 0;
  private String called = "";

  PlanShape() {}

  static String textOf(Object part) {
    StringBuilder out = new StringBuilder();
    new PlanShape().write(part, out);
    return out.toString();
  }

  static String hash(String text) {
    return HexFormat.of().formatHex(sha256().digest(text.getBytes(StandardCharsets.UTF_8)), 0, 8);
  }

  static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }

  void write(Object value, StringBuilder out) {
    if (value == null || value instanceof Number || value instanceof Boolean) {
      out.append(value);
    } else if (value instanceof PythonFunction function) {
      functions.add(Map.entry(called, function));
      out.append('_');
    } else if (value instanceof Metadata about) {
      met(about);
      out.append('_');
    } else if (value instanceof QueryContext) {
      out.append('_');
    } else if (value instanceof String text) {
      names.met(text, masked(text));
      out.append('"').append(masked(text)).append('"');
    } else if (value instanceof ExprId id) {
      out.append('#').append(number(id));
    } else if (value instanceof DataType type) {
      out.append(type.json());
    } else if (value instanceof byte[] bytes) {
      out.append(HexFormat.of().formatHex(bytes));
    } else if (value instanceof CatalogTable table) {
      names.met(table.identifier().toString(), masked(table.identifier().toString()));
      out.append(masked(table.identifier().toString()));
    } else if (value instanceof HadoopFsRelation files) {
      out.append(files.fileFormat().getClass().getName());
      write(files.schema(), out);
      Map<String, String> options = new HashMap<>(CollectionConverters.asJava(files.options()));
      options.keySet().removeAll(WHERE);
      write(SparkLine.immutable(options), out);
    } else if (value instanceof LocalRelation local) {
      write(local.output(), out);
      out.append(rows(local));
    } else if (value instanceof scala.collection.Map<?, ?> || value instanceof scala.collection.Set<?>) {
      sorted(CollectionConverters.asJava((scala.collection.Iterable<?>) value), out);
    } else if (value instanceof Map<?, ?> map) {
      sorted(map.entrySet(), out);
    } else if (value instanceof Map.Entry<?, ?> entry) {
      out.append(entry.getKey()).append('=').append(entry.getValue());
    } else if (value instanceof scala.collection.Iterable<?> items) {
      many(items.iterator(), out);
    } else if (value instanceof Product product) {
      product(product, out);
    } else if (isText(value)) {
      out.append(value);
    } else {
      if (JvmCode.isFunction(value)) {
        compiled.add(Map.entry(called, value));
      }
      out.append(name(value));
    }
  }

  /** By its place, so that two columns that changed it between them are seen; without the numbers that Spark gives to frames while it runs. */
  private void met(Metadata about) {
    columns++;
    String said = new MetadataBuilder().withMetadata(about).remove("__dataset_id").remove("__col_position").build().json();
    if (!said.equals("{}")) {
      metadata.add(columns + " " + said);
    }
  }

  /** Values whose text says all: strings, decimals, intervals, arrays and maps as the driver makes them, names, enumerations. */
  private static boolean isText(Object value) {
    String from = value.getClass().getName();
    return value instanceof Enum
        || value instanceof scala.Enumeration.Value
        || value instanceof Identifier
        || value instanceof GenericArrayData
        || value instanceof ArrayBasedMapData
        || from.startsWith("org.apache.spark.unsafe.types.")
        || from.equals("org.apache.spark.sql.types.Decimal");
  }

  /** The class; one made at run time has a number in its name that says nothing. */
  static String name(Object value) {
    String name = value.getClass().getName();
    int made = name.indexOf("$$Lambda");
    return made < 0 ? name : name.substring(0, made);
  }

  private void product(Product product, StringBuilder out) {
    String outside = called;
    if (product instanceof PythonFuncExpression python) {
      called = python.name();
    } else if (product instanceof ScalaUDF jvm) {
      called = jvm.udfName().isDefined() ? jvm.udfName().get() : "";
    }
    seeds.look(product);
    if (product instanceof Alias alias && alias.explicitMetadata().isDefined()) {
      met(alias.explicitMetadata().get());
    }
    if (JvmCode.isFunction(product)) {
      compiled.add(Map.entry(called, product));
    }
    out.append(name(product)).append('(');
    if (product instanceof NamedExpression named) {
      write(named.exprId(), out);
    }
    for (int i = 0; i < product.productArity(); i++) {
      out.append(',');
      if (!says(product, i)) {
        continue;
      }
      if (product instanceof NamedExpression named && product.productElement(i) instanceof String text) {
        names.met(named, text, masked(text));
        out.append('"').append(masked(text)).append('"');
      } else {
        write(product.productElement(i), out);
      }
    }
    called = outside;
    out.append(')');
    if (product instanceof CTERelationDef definition) {
      out.append("cte").append(number(definition.id()));
    } else if (product instanceof CTERelationRef reference) {
      out.append("cte").append(number(reference.cteId()));
    }
  }

  /** Does this argument say anything about the rows? */
  private static boolean says(Product product, int index) {
    Object value = product.productElement(index);
    String name = SparkLine.argument(product, index);
    if (product instanceof ExpressionWithRandomSeed random) {
      return !name.equals("randomSeed") && !name.equals("hideSeed") && value != random.seedExpression();
    }
    if (product instanceof TimeZoneAwareExpression) {
      return !name.equals("timeZoneId");
    }
    if (product instanceof CTERelationDef || product instanceof CTERelationRef) {
      return !name.equals("id") && !name.equals("cteId") && !name.equals("statsOpt");
    }
    return !(product instanceof Sample && name.equals("seed"))
        && !(SparkLine.isSqlFunction(product) && (name.equals("createTimeMs") || name.equals("owner")))
        && !(product instanceof Range && name.equals("numSlices"))
        && !(product instanceof NamedLambdaVariable && (name.equals("name") || name.equals("value")));
  }

  private int number(Object id) {
    return ids.computeIfAbsent(id, unseen -> ids.size());
  }

  /** Names that Spark or PySpark made up: for a view of a DataFrame in SQL text, for a column after its id or its seed, for a variable of a function. */
  static String masked(String text) {
    String made =
        text.replaceAll("_pyspark_[0-9a-f]+", "_pyspark_")
            .replaceAll("(\\w)#\\d+L?", "$1#")
            .replaceAll("\\b(randn?|uuid|shuffle|randstr|uniform)\\(([^()]*?)-?\\d+\\)", "$1($2)");
    return made.contains("lambda") ? made.replaceAll("\\b(\\w+)_\\d+\\b", "$1_") : made;
  }

  private void many(Iterator<?> items, StringBuilder out) {
    out.append('[');
    while (items.hasNext()) {
      write(items.next(), out);
      out.append(',');
    }
    out.append(']');
  }

  private void sorted(Iterable<?> items, StringBuilder out) {
    List<String> texts = new ArrayList<>();
    for (Object item : items) {
      StringBuilder text = new StringBuilder();
      write(item, text);
      texts.add(text.toString());
    }
    Collections.sort(texts);
    out.append(texts);
  }

  private static String rows(LocalRelation local) {
    MessageDigest digest = sha256();
    UnsafeProjection projection = UnsafeProjection.create(local.schema());
    for (Iterator<InternalRow> rows = local.data().iterator(); rows.hasNext(); ) {
      digest.update(projection.apply(rows.next()).getBytes());
    }
    return HexFormat.of().formatHex(digest.digest(), 0, 8);
  }
}
