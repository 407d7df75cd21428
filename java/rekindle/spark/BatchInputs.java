// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.Dependency;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CacheManager;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.datasources.CatalogFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The batch inputs of a streaming plan: its leaves that are no streams and are not pinned yet. Files are told with all that is needed to read them again; a
 * link on a disk is followed, so that what it led to is still known when it leads elsewhere. Rows that the driver gave belong to the code.
 */
public final class BatchInputs {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String SPARK = "org.apache.spark.";
  private static final String CACHED = "InMemoryRelation";

  private BatchInputs() {}

  /** What earlier batches read: the list as `of` told it, and the last batch that does; an empty one where none does. */
  public record Earlier(String leaves, long until) {}

  /** As JSON: `place`, `schema` and `directories` with their `values` and `files` (path, length, time) of an input that can be pinned, else what is `loose`. */
  public static String of(QueryExecution execution) throws JsonProcessingException {
    ArrayNode out = JSON.createArrayNode();
    List<LogicalRelation> leaves = new ArrayList<>();
    TreeSet<String> loose = new TreeSet<>();
    sort(execution, execution.analyzed(), leaves, loose);
    for (LogicalRelation leaf : leaves) {
      HadoopFsRelation files = (HadoopFsRelation) leaf.relation();
      ObjectNode told = JSON.createObjectNode();
      told.put("place", place(leaf, files.location()));
      told.put("schema", files.schema().json());
      if (hasTimes(files.location(), directories(files, told.putArray("directories")))) {
        out.add(told);
      } else {
        loose.add("files without a modification time");
      }
    }
    loose.forEach(one -> out.addObject().put("loose", one));
    return JSON.writeValueAsString(out);
  }

  /** The plan over the files of these leaves, in the order in which `of` tells them. */
  public static Dataset<Row> pinned(SparkSession session, QueryExecution execution, String step, String leaves, Earlier earlier) throws JsonProcessingException {
    List<LogicalRelation> found = new ArrayList<>();
    sort(execution, execution.analyzed(), found, new TreeSet<>());
    JsonNode now = JSON.readTree(leaves);
    JsonNode before = earlier.leaves().isEmpty() ? null : JSON.readTree(earlier.leaves());
    Map<LogicalPlan, LogicalPlan> instead = new IdentityHashMap<>();
    for (int i = 0; i < found.size(); i++) {
      LogicalRelation leaf = found.get(i);
      HadoopFsRelation files = (HadoopFsRelation) leaf.relation();
      StructType columns = files.partitionSchema();
      Configuration configuration = session.sessionState().newHadoopConfWithOptions(files.options());
      PinnedFiles.PinnedList first = new PinnedFiles.PinnedList(now.get(i), columns, configuration);
      PinnedFiles.PinnedList second = before == null ? null : new PinnedFiles.PinnedList(before.get(i), columns, configuration);
      PinnedFiles index = new PinnedFiles(session, step, files.location().rootPaths(), first, second, earlier.until());
      HadoopFsRelation made =
          new HadoopFsRelation(index, columns, files.dataSchema(), files.bucketSpec(), files.fileFormat(), files.options(), files.sparkSession());
      instead.put(leaf, SparkLine.over(leaf, made));
    }
    return PlanLeaves.replaced(session, execution, instead);
  }

  /** One line for each pinned file of a step that is not what it was: its path, what is different; by a tab. */
  public static String changed(QueryExecution execution, String step) {
    List<String> lines = new ArrayList<>();
    for (LogicalPlan node : Sources.nodes(execution.analyzed())) {
      if (node instanceof LogicalRelation relation
          && relation.relation() instanceof HadoopFsRelation files
          && files.location() instanceof PinnedFiles index
          && index.step.equals(step)) {
        lines.addAll(index.changed());
      }
    }
    return String.join("\n", lines);
  }

  /** Leaves that can be pinned, in the order of the plan, and what cannot. */
  private static void sort(QueryExecution execution, LogicalPlan node, List<LogicalRelation> leaves, TreeSet<String> loose) {
    CacheManager cache = execution.sparkSession().sharedState().cacheManager();
    if (!cache.isEmpty() && !node.isStreaming() && SparkLine.isCached(cache, execution.sparkSession(), node)) {
      loose.add(CACHED);
      return;
    }
    CollectionConverters.asJava(node.children()).forEach(child -> sort(execution, child, leaves, loose));
    CollectionConverters.asJava(node.subqueries()).forEach(child -> sort(execution, child, leaves, loose));
    if (!node.children().isEmpty() || node instanceof StreamingRelation || node instanceof StreamingRelationV2 || isGiven(node)) {
      return;
    }
    if (node instanceof LogicalRelation relation && relation.relation() instanceof HadoopFsRelation files) {
      if (isKnown(files.location())) {
        leaves.add(relation);
      } else if (!(files.location() instanceof PinnedFiles)) {
        loose.add(files.location().getClass().getSimpleName());
      }
    } else if (node instanceof DataSourceV2Relation relation) {
      loose.add(relation.table().getClass().getSimpleName());
    } else {
      List<String> lines = new ArrayList<>();
      Sources.leaf(node, lines);
      lines.forEach(line -> loose.add(line.substring(line.indexOf('\t') + 1)));
    }
  }

  /** Indexes of which a list of files is all that counts. Those of others may know more of each file. */
  private static boolean isKnown(FileIndex index) {
    boolean isListed = index instanceof PartitioningAwareFileIndex || index instanceof CatalogFileIndex;
    return index instanceof VersionFiles || (isListed && index.getClass().getName().startsWith(SPARK));
  }

  private static boolean isGiven(LogicalPlan node) {
    return node instanceof LogicalRDD rows && isGiven(rows.rdd());
  }

  private static boolean isGiven(RDD<?> rdd) {
    List<? extends Dependency<?>> below = CollectionConverters.asJava(rdd.dependencies());
    if (below.isEmpty()) {
      return rdd.getClass().getSimpleName().equals("ParallelCollectionRDD");
    }
    return below.stream().allMatch(one -> isGiven(one.rdd()));
  }

  /** A table by its name: where its files lie may be another place with each version of it. */
  private static String place(LogicalRelation leaf, FileIndex index) {
    if (leaf.catalogTable().isDefined()) {
      return leaf.catalogTable().get().identifier().toString();
    }
    TreeSet<String> roots = new TreeSet<>();
    CollectionConverters.asJava(index.rootPaths()).forEach(path -> roots.add(path.toString()));
    return String.join("\n", roots);
  }

  /** The oldest time of all files. */
  private static long directories(HadoopFsRelation files, ArrayNode out) {
    long oldest = Long.MAX_VALUE;
    List<ObjectNode> found = new ArrayList<>();
    for (PartitionDirectory directory : CollectionConverters.asJava(files.location().listFiles(SparkObjects.seq(List.of()), SparkObjects.seq(List.of())))) {
      ObjectNode told = JSON.createObjectNode();
      ArrayNode values = told.putArray("values");
      for (int i = 0; i < files.partitionSchema().size(); i++) {
        values.add(text(directory.values(), i, files.partitionSchema()));
      }
      ArrayNode names = told.putArray("files");
      List<FileStatusWithMetadata> its = new ArrayList<>(CollectionConverters.asJava(directory.files()));
      its.sort(Comparator.comparing(file -> file.getPath().toString()));
      for (FileStatusWithMetadata file : its) {
        names.addArray().add(real(file.getPath())).add(file.getLen()).add(file.getModificationTime());
        oldest = Math.min(oldest, file.getModificationTime());
      }
      found.add(told);
    }
    found.sort(Comparator.comparing(told -> told.get("values").toString()));
    found.forEach(out::add);
    return oldest;
  }

  private static boolean hasTimes(FileIndex index, long oldest) {
    return index instanceof VersionFiles || oldest > 0;
  }

  private static String text(InternalRow values, int at, StructType columns) {
    if (values.isNullAt(at)) {
      return null;
    }
    Literal literal = new Literal(values.get(at, columns.fields()[at].dataType()), columns.fields()[at].dataType());
    return new Cast(literal, DataTypes.StringType, Option.apply(PinnedFiles.ZONE), EvalMode.LEGACY()).eval(null).toString();
  }

  private static String real(Path path) {
    if (!"file".equals(path.toUri().getScheme())) {
      return path.toString();
    }
    try {
      java.nio.file.Path there = Paths.get(path.toUri().getPath());
      java.nio.file.Path led = there.toRealPath();
      return led.equals(there) || !Files.isRegularFile(led) ? path.toString() : new Path("file", null, led.toString()).toString();
    } catch (IOException gone) {
      return path.toString();
    }
  }
}
