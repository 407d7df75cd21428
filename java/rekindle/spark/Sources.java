// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Deque;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BiConsumer;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.internal.config.ConfigEntry;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.ParsedStatement;
import org.apache.spark.sql.catalyst.plans.logical.Range;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.FileTable;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SQLConf$;

import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** What a plan reads from outside, in one call however many files there are; and the settings it was made with. */
public final class Sources {
  private static final Seq<Expression> NO_FILTERS = CollectionConverters.asScala(List.<Expression>of()).toSeq();

  private Sources() {}

  /**
   * One line per source: `files`, digest, number, bytes; or `table`, digest of name and version; or `unpinned`, what it is. Data in the plan itself and
   * kept results of the same run are no sources. Of a directory with partitions only those count that the plan asks for.
   */
  public static String pins(QueryExecution execution) {
    List<String> lines = new ArrayList<>();
    for (LogicalPlan node : nodes(execution.analyzed())) {
      if (node.children().isEmpty()) {
        leaf(node, lines);
      }
    }
    List<LogicalPlan> optimized = nodes(execution.optimizedPlan());
    Map<LogicalPlan, Seq<Expression>> filters = filters(optimized);
    for (LogicalPlan node : optimized) {
      if (node instanceof InMemoryRelation) {
        lines.add("unpinned\tInMemoryRelation");
      } else if (node instanceof LogicalRelation relation) {
        files(relation, filters.getOrDefault(relation, NO_FILTERS), lines);
      }
    }
    Collections.sort(lines);
    return String.join("\n", lines);
  }

  /** The files and directories that a plan was told to read from outside, one per line. */
  public static String places(QueryExecution execution) {
    Set<String> found = new TreeSet<>();
    for (LogicalPlan node : nodes(execution.analyzed())) {
      FileIndex index = null;
      if (node instanceof LogicalRelation relation && relation.relation() instanceof HadoopFsRelation files) {
        index = files.location();
      } else if (node instanceof DataSourceV2Relation relation && relation.table() instanceof FileTable files) {
        index = files.fileIndex();
      }
      if (index != null && !(index instanceof KeptFiles || index instanceof CommittedFiles)) {
        CollectionConverters.asJava(index.rootPaths()).forEach(path -> found.add(path.toString()));
      }
    }
    return String.join("\n", found);
  }

  /** Every file that a plan reads from outside, as its own listing has it, with the configuration it is read with. */
  static void eachFile(QueryExecution execution, BiConsumer<FileStatus, Configuration> taker) {
    for (LogicalPlan node : nodes(execution.analyzed())) {
      if (node instanceof DataSourceV2Relation relation && relation.table() instanceof FileTable files) {
        Map<String, String> options = relation.options().asCaseSensitiveMap();
        eachFile(files.fileIndex(), NO_FILTERS, configuration(execution, options), taker);
      }
    }
    List<LogicalPlan> optimized = nodes(execution.optimizedPlan());
    Map<LogicalPlan, Seq<Expression>> filters = filters(optimized);
    for (LogicalPlan node : optimized) {
      if (node instanceof LogicalRelation relation
          && relation.relation() instanceof HadoopFsRelation files
          && !(files.location() instanceof KeptFiles || files.location() instanceof CommittedFiles)) {
        Configuration configuration = configuration(execution, CollectionConverters.asJava(files.options()));
        eachFile(files.location(), filters.getOrDefault(relation, NO_FILTERS), configuration, taker);
      }
    }
  }

  private static void eachFile(
      FileIndex index, Seq<Expression> filters, Configuration configuration, BiConsumer<FileStatus, Configuration> taker) {
    for (PartitionDirectory directory : CollectionConverters.asJava(index.listFiles(filters, NO_FILTERS))) {
      for (FileStatusWithMetadata file : CollectionConverters.asJava(directory.files())) {
        taker.accept(file.fileStatus(), configuration);
      }
    }
  }

  private static Configuration configuration(QueryExecution execution, Map<String, String> options) {
    return execution
        .sparkSession()
        .sessionState()
        .newHadoopConfWithOptions(SparkLine.immutable(options));
  }

  /** The conditions on directories above each relation. */
  private static Map<LogicalPlan, Seq<Expression>> filters(List<LogicalPlan> optimized) {
    Map<LogicalPlan, Seq<Expression>> filters = new IdentityHashMap<>();
    for (LogicalPlan node : optimized) {
      if (node instanceof Filter filter && filter.child() instanceof LogicalRelation relation) {
        filters.put(relation, partitionFilters(filter.condition(), relation));
      }
    }
    return filters;
  }

  /** Whether a plan reads results that we kept: those are known to be the same by their digests only. */
  public static boolean readsKept(LogicalPlan plan) {
    for (LogicalPlan node : nodes(plan)) {
      if (node instanceof LogicalRelation relation
          && relation.relation() instanceof HadoopFsRelation files
          && (files.location() instanceof KeptFiles || files.location() instanceof CommittedFiles)) {
        return true;
      }
    }
    return false;
  }

  /** Whether each table of a catalog that a plan reads is one whose rows are the same each time. */
  public static boolean readsPinned(LogicalPlan plan) {
    for (LogicalPlan node : nodes(plan)) {
      Table table = null;
      if (node instanceof DataSourceV2Relation relation) {
        table = relation.table();
      } else if (node instanceof DataSourceV2ScanRelation scan) {
        table = scan.relation().table();
      }
      if (table != null && !(table instanceof PinnedSource)) {
        return false;
      }
    }
    return true;
  }

  /** Whether a parsed query reads files by their path (`select … from parquet.`/path``), and nothing in it acts. */
  public static boolean readsPaths(LogicalPlan parsed) {
    boolean reads = false;
    for (LogicalPlan node : nodes(parsed)) {
      if (node instanceof Command || node instanceof ParsedStatement || node.getClass().getSimpleName().startsWith("Insert")) {
        return false;
      }
      reads |= node instanceof UnresolvedRelation relation && relation.multipartIdentifier().size() == 2 && relation.multipartIdentifier().last().contains("/");
    }
    return reads;
  }

  /** The temporary views and functions of a session, one per line: kind, name, a number that is another one when it is replaced; by tabs. */
  public static String temporaries(SparkSession session) {
    SessionCatalog catalog = session.sessionState().catalog();
    List<String> lines = new ArrayList<>();
    for (String name : CollectionConverters.asJava(catalog.getTempViewNames())) {
      catalog.getRawTempView(name).foreach(view -> lines.add("view\t" + name + "\t" + System.identityHashCode(view)));
    }
    Set<String> made = new TreeSet<>();
    CollectionConverters.asJava(catalog.listTemporaryFunctions()).forEach(name -> made.add(name.funcName()));
    FunctionRegistry registry = session.sessionState().functionRegistry();
    for (FunctionIdentifier name : CollectionConverters.asJava(registry.listFunction())) {
      if (made.contains(name.funcName())) {
        registry.lookupFunctionBuilder(name).foreach(builder -> lines.add("function\t" + name.funcName() + "\t" + System.identityHashCode(builder)));
      }
    }
    return String.join("\n", lines);
  }

  /** The names of the temporary views that a plan reads, one per line. */
  public static String views(LogicalPlan plan) {
    Set<String> names = new TreeSet<>();
    for (LogicalPlan node : nodes(plan)) {
      if (node instanceof View view && view.isTempView()) {
        names.add(view.desc().identifier().table());
      }
    }
    return String.join("\n", names);
  }

  /** Every setting of a session that somebody set, one `key=value` per line. */
  public static String allSettings(SparkSession session) {
    List<String> lines = new ArrayList<>();
    CollectionConverters.asJava(session.sessionState().conf().getAllConfs()).forEach((key, value) -> lines.add(key + "=" + value));
    Collections.sort(lines);
    return String.join("\n", lines);
  }

  /** The expressions that a plan's JSON leaves out, as a list of theirs: those of `Expand` lie in lists of lists. */
  public static String untold(LogicalPlan plan) {
    List<String> found = new ArrayList<>();
    for (LogicalPlan node : nodes(plan)) {
      if (node instanceof Expand) {
        CollectionConverters.asJava(node.expressions()).forEach(one -> found.add(one.toJSON()));
      }
    }
    return "[" + String.join(",", found) + "]";
  }

  /** The settings `keys`, and all below `prefixes` that somebody set. One line each: key, its value here, its default; by tabs. */
  public static String settings(SparkSession session, String keys, String prefixes) {
    SQLConf conf = session.sessionState().conf();
    Set<String> names = new TreeSet<>(List.of(keys.split("\n")));
    for (String name : CollectionConverters.asJava(conf.getAllConfs()).keySet()) {
      if (Arrays.stream(prefixes.split("\n")).anyMatch(one -> !one.isEmpty() && name.startsWith(one))) {
        names.add(name);
      }
    }
    StringBuilder lines = new StringBuilder();
    for (String name : names) {
      ConfigEntry<?> entry = SQLConf$.MODULE$.getConfigEntry(name);
      String usual = entry == null ? "" : entry.defaultValueString();
      String here = conf.getConfString(name, null);
      lines.append(name).append('\t').append(here == null ? usual : here).append('\t').append(usual).append('\n');
    }
    return lines.toString();
  }

  static void leaf(LogicalPlan node, List<String> lines) {
    if (node instanceof LogicalRelation relation) {
      if (!(relation.relation() instanceof HadoopFsRelation)) {
        lines.add("unpinned\t" + relation.relation().getClass().getSimpleName());
      }
    } else if (node instanceof DataSourceV2Relation relation) {
      table(relation, lines);
    } else if (!(node instanceof LocalRelation
        || node instanceof Range
        || node instanceof OneRowRelation
        || node instanceof CTERelationRef)) {
      lines.add("unpinned\t" + node.getClass().getSimpleName());
    }
  }

  private static void table(DataSourceV2Relation relation, List<String> lines) {
    Table table = relation.table();
    if (table instanceof FileTable files) {
      listed(files.fileIndex(), NO_FILTERS, lines);
      maySkip(relation.options().asCaseSensitiveMap(), SQLConf.get(), lines);
      return;
    }
    String version = version(table);
    if (version == null) {
      lines.add("unpinned\t" + table.getClass().getSimpleName());
    } else {
      lines.add("table\t" + PlanShape.hash(table.name() + "\t" + version));
    }
  }

  /** Spark 4.2 asks the table itself; others say it in their properties. */
  private static String version(Table table) {
    try {
      Object version = Table.class.getMethod("version").invoke(table);
      if (version != null) {
        return version.toString();
      }
    } catch (ReflectiveOperationException e) {
      // An older Spark: the properties are all there is.
    }
    Map<String, String> properties = table.properties();
    return properties.get("current-snapshot-id");
  }

  private static void files(LogicalRelation relation, Seq<Expression> filters, List<String> lines) {
    if (relation.relation() instanceof HadoopFsRelation files) {
      if (files.location() instanceof KeptFiles kept) {
        lines.add(kept.pin());
      } else if (!(files.location() instanceof CommittedFiles)) {
        listed(files.location(), filters, lines);
        SQLConf conf = files.sparkSession().sessionState().conf();
        maySkip(CollectionConverters.asJava(files.options()), conf, lines);
      }
    }
  }

  /** Whatever goes wrong while such a file is read, the rest of it is left out: two reads need not give the same rows. */
  private static void maySkip(Map<String, String> options, SQLConf conf, List<String> lines) {
    boolean corrupt = conf.ignoreCorruptFiles();
    boolean missing = conf.ignoreMissingFiles();
    for (Map.Entry<String, String> option : options.entrySet()) {
      if (option.getKey().equalsIgnoreCase("ignoreCorruptFiles")) {
        corrupt = Boolean.parseBoolean(option.getValue());
      } else if (option.getKey().equalsIgnoreCase("ignoreMissingFiles")) {
        missing = Boolean.parseBoolean(option.getValue());
      }
    }
    if (corrupt || missing) {
      lines.add("unpinned\tfiles that may be skipped (" + (corrupt ? "ignoreCorruptFiles" : "ignoreMissingFiles") + ")");
    }
  }

  private static void listed(FileIndex index, Seq<Expression> filters, List<String> lines) {
    List<String> found = new ArrayList<>();
    long bytes = 0;
    boolean hasTimes = true;
    for (PartitionDirectory directory : CollectionConverters.asJava(index.listFiles(filters, NO_FILTERS))) {
      for (FileStatusWithMetadata file : CollectionConverters.asJava(directory.files())) {
        found.add(file.getPath() + "\t" + file.getLen() + "\t" + file.getModificationTime());
        bytes += file.getLen();
        hasTimes &= index instanceof VersionFiles || file.getModificationTime() > 0;
      }
    }
    Collections.sort(found);
    String digest = PlanShape.hash(String.join("\n", found));
    lines.add(hasTimes ? "files\t" + digest + "\t" + found.size() + "\t" + bytes : "unpinned\tfiles without a modification time");
  }

  /** The conditions that Spark, too, asks of directories alone. */
  private static Seq<Expression> partitionFilters(Expression condition, LogicalRelation relation) {
    List<Expression> found = new ArrayList<>();
    if (relation.relation() instanceof HadoopFsRelation files) {
      List<String> names = List.of(files.partitionSchema().fieldNames());
      Deque<Expression> todo = new ArrayDeque<>(List.of(condition));
      while (!todo.isEmpty()) {
        Expression one = todo.pop();
        if (one instanceof And and) {
          todo.push(and.left());
          todo.push(and.right());
        } else if (one.deterministic() && !SubqueryExpression.hasSubquery(one) && isAbout(one, names)) {
          found.add(one);
        }
      }
    }
    return CollectionConverters.asScala(found).toSeq();
  }

  private static boolean isAbout(Expression condition, List<String> names) {
    for (Attribute attribute : CollectionConverters.asJava(condition.references().toSeq())) {
      if (!names.contains(attribute.name())) {
        return false;
      }
    }
    return !condition.references().isEmpty();
  }

  /** Every node, with those of subqueries. */
  static List<LogicalPlan> nodes(LogicalPlan plan) {
    List<LogicalPlan> found = new ArrayList<>();
    Deque<LogicalPlan> todo = new ArrayDeque<>(List.of(plan));
    while (!todo.isEmpty()) {
      LogicalPlan node = todo.pop();
      found.add(node);
      CollectionConverters.asJava(node.children()).forEach(todo::push);
      CollectionConverters.asJava(node.subqueries()).forEach(todo::push);
    }
    return found;
  }
}
