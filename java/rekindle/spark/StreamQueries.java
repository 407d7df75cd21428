// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.lang.reflect.Field;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListMap;

import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation;
import org.apache.spark.sql.streaming.DataStreamWriter;
import org.apache.spark.sql.streaming.StateOperatorProgress;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryProgress;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import scala.jdk.javaapi.CollectionConverters;

/** The streaming queries of a driver, looked at in one call, however many there are. What it tells is how they are now: nothing is collected meanwhile. */
public final class StreamQueries {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Map<String, StreamingQuery> QUERIES = new ConcurrentSkipListMap<>();
  private static final int CAUSES_MAX = 8;
  private static final int TEXT_MAX = 20_000;
  /** Operators that keep state between batches wherever they stand over a stream; a join does if both sides are streams. */
  private static final Set<String> STATEFUL =
      Set.of(
          "Aggregate",
          "Deduplicate",
          "DeduplicateWithinWatermark",
          "Distinct",
          "Except",
          "Intersect",
          "FlatMapGroupsWithState",
          "FlatMapGroupsInPandasWithState",
          "TransformWithState",
          "TransformWithStateInPySpark",
          "GlobalLimit",
          "LocalLimit");

  private static final String WATERMARK = "EventTimeWatermark";
  private static final Set<String> PROJECTIONS = Set.of("Project", "SubqueryAlias");

  /** What Spark makes an aggregate of. */
  private static final Set<String> AGGREGATES = Set.of("Distinct", "Except", "Intersect");

  /** What tells one Kafka source from another. */
  /** An option of ours: what a stream is called whose others were replaced. */
  static final String CALLED = "rekindle.called";
  private static final List<String> KAFKA = List.of("subscribe", "subscribePattern", "assign", "kafka.bootstrap.servers");

  /** The options of a writer that are told: others may hold secrets. */
  private static final List<String> OPTIONS = List.of("path", "checkpointLocation", "queryName");

  private StreamQueries() {}

  /**
   * What a writer was told so far: its format, its trigger, and of its options the path and the checkpoint. Spark has no getters for these, and a checkpoint
   * that is overlooked would be a position that is lost.
   */
  public static Map<String, String> writer(DataStreamWriter<?> writer) {
    Map<String, String> told = new HashMap<>();
    told.put("format", String.valueOf(field(writer, "source")));
    told.put("trigger", String.valueOf(field(writer, "trigger")));
    scala.collection.Map<?, ?> options = (scala.collection.Map<?, ?>) field(writer, "extraOptions");
    Map<?, ?> given = CollectionConverters.asJava(options);
    for (Map.Entry<?, ?> one : given.entrySet()) {
      for (String name : OPTIONS) {
        if (name.equalsIgnoreCase(String.valueOf(one.getKey()))) {
          told.put(name, String.valueOf(one.getValue()));
        }
      }
    }
    return told;
  }

  private static Object field(DataStreamWriter<?> writer, String name) {
    try {
      Field found = writer.getClass().getDeclaredField(name);
      found.setAccessible(true);
      return found.get(writer);
    } catch (ReflectiveOperationException unknown) {
      throw new IllegalStateException("this Spark does not tell the " + name + " of a writer of streams", unknown);
    }
  }

  public static void watch(String key, StreamingQuery query) {
    QUERIES.put(key, query);
  }

  public static void forget(String key) {
    QUERIES.remove(key);
  }

  /** Each query, as JSON. {@code error} is there if it failed; {@code batch} is the last one of which a progress was told, -1 before the first. */
  public static String look() throws JsonProcessingException {
    ArrayNode out = JSON.createArrayNode();
    for (Map.Entry<String, StreamingQuery> one : QUERIES.entrySet()) {
      StreamingQuery query = one.getValue();
      ObjectNode told = out.addObject();
      boolean isActive = query.isActive();
      told.put("key", one.getKey());
      told.put("is_active", isActive);
      told.put("is_in_batch", query.status().isTriggerActive());
      told.put("message", query.status().message());
      if (!isActive && query.exception().isDefined()) {
        told.put("error", text(query.exception().get()));
      }
      progress(query.lastProgress(), told);
    }
    return JSON.writeValueAsString(out);
  }

  /**
   * The operators of a plan that keep state between batches, a line each, in the order of the plan, without those of the plans that it reads. A plan that is
   * read stands in it as it is; where Spark wrote it anew, its operators are told once more, which is on the safe side. Watermarks are told too: the lowest of
   * a query counts for every operator of it, wherever it stands.
   */
  public static String stateful(QueryExecution execution, List<QueryExecution> read) {
    List<String> found = new ArrayList<>();
    for (LogicalPlan node : own(execution, read)) {
      String name = node.getClass().getSimpleName();
      if (keepsState(node) || name.equals(WATERMARK)) {
        found.add(AGGREGATES.contains(name) ? "Aggregate" : name);
      }
    }
    return String.join("\n", found);
  }

  /**
   * Whether a plan has an operator beside projections, without those of the plans that it reads. Spark's optimizer moves conditions below an operator with
   * state where it can, a filter by a key below its aggregate: groups that are in the state already then come out although the condition is against them.
   */
  public static boolean mayReachBelow(QueryExecution execution, List<QueryExecution> read) {
    return own(execution, read).stream().anyMatch(node -> !PROJECTIONS.contains(node.getClass().getSimpleName()));
  }

  /** The streaming operators of a plan in its order, without those of the plans that it reads. */
  private static List<LogicalPlan> own(QueryExecution execution, List<QueryExecution> read) {
    List<LogicalPlan> below = read.stream().map(QueryExecution::analyzed).toList();
    List<LogicalPlan> found = new ArrayList<>();
    Deque<LogicalPlan> left = new ArrayDeque<>();
    left.push(execution.analyzed());
    while (!left.isEmpty()) {
      LogicalPlan node = left.pop();
      if (!node.isStreaming() || below.contains(node)) {
        continue;
      }
      found.add(node);
      List<LogicalPlan> children = new ArrayList<>(CollectionConverters.asJava(node.children()));
      Collections.reverse(children);
      children.forEach(left::push);
    }
    return found;
  }

  private static boolean keepsState(LogicalPlan node) {
    boolean isJoin = node instanceof Join join && join.left().isStreaming() && join.right().isStreaming();
    return isJoin || STATEFUL.contains(node.getClass().getSimpleName());
  }

  /** Whether rows of a plan depend on those of earlier batches. */
  static boolean hasState(LogicalPlan node) {
    if (!node.isStreaming()) {
      return false;
    }
    return keepsState(node) || CollectionConverters.asJava(node.children()).stream().anyMatch(StreamQueries::hasState);
  }

  /**
   * The streams that a plan reads, in the order in which a checkpoint numbers them. Spark names a file source by its path, and every Kafka source alike: its
   * topics and brokers stand in its options.
   */
  public static List<String> streams(QueryExecution execution) {
    List<String> found = new ArrayList<>();
    Deque<LogicalPlan> left = new ArrayDeque<>();
    left.push(execution.analyzed());
    while (!left.isEmpty()) {
      LogicalPlan node = left.pop();
      if (node instanceof StreamingRelationV2 || node instanceof StreamingRelation) {
        found.add(stream(node));
      }
      List<LogicalPlan> children = new ArrayList<>(CollectionConverters.asJava(node.children()));
      Collections.reverse(children);
      children.forEach(left::push);
    }
    return found;
  }

  /** One of them. */
  static String stream(LogicalPlan leaf) {
    if (leaf instanceof StreamingRelationV2 second) {
      String called = second.extraOptions().get(CALLED);
      return called != null ? called : second.sourceName() + told(second.extraOptions());
    }
    return ((StreamingRelation) leaf).sourceName();
  }

  private static String told(CaseInsensitiveStringMap options) {
    List<String> told = new ArrayList<>();
    for (String name : KAFKA) {
      if (options.containsKey(name)) {
        String[] several = options.get(name).split(",");
        Arrays.sort(several);
        told.add(name + "=" + String.join(",", several));
      }
    }
    return told.isEmpty() ? "" : told.toString();
  }

  private static void progress(StreamingQueryProgress last, ObjectNode told) {
    if (last == null) {
      return;
    }
    // While it waits for input, Spark tells the number of the batch that comes next.
    told.put("batch", last.durationMs().containsKey("addBatch") ? last.batchId() : last.batchId() - 1);
    told.put("at", last.timestamp());
    told.put("rows", last.numInputRows());
    told.put("rows_per_second", finite(last.processedRowsPerSecond()));
    Long took = last.durationMs().get("triggerExecution");
    told.put("took_ms", took == null ? 0 : took);
    long rows = 0;
    long bytes = 0;
    for (StateOperatorProgress state : last.stateOperators()) {
      rows += state.numRowsTotal();
      bytes += state.memoryUsedBytes();
    }
    told.put("state_rows", rows);
    told.put("state_bytes", bytes);
  }

  private static double finite(double value) {
    return Double.isFinite(value) ? value : 0;
  }

  private static String text(Throwable failed) {
    StringBuilder said = new StringBuilder();
    int left = CAUSES_MAX;
    for (Throwable one = failed; one != null && left > 0; one = one.getCause(), left--) {
      said.append(one.getClass().getName()).append(": ").append(one.getMessage()).append('\n');
    }
    return said.length() > TEXT_MAX ? said.substring(0, TEXT_MAX) : said.toString();
  }
}
