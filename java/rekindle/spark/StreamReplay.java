// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation;
import org.apache.spark.sql.types.StructType;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The plan of a streaming query over other rows: those of one recorded batch, or all but some records.
 *
 * <p>Only the leaves of the plan are replaced, and what takes their place has their columns with the same ids: the rest of the plan is untouched. Leaves are
 * numbered as a checkpoint numbers them: in the order of the plan, equal ones once.
 */
public final class StreamReplay {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String HIDDEN = "__metadata_col";

  private StreamReplay() {}

  /** The streams that a plan reads, as JSON: what they are, how they are read, and their columns. */
  public static String leaves(QueryExecution execution) throws JsonProcessingException {
    ArrayNode out = JSON.createArrayNode();
    for (LogicalPlan leaf : streams(execution.analyzed())) {
      ObjectNode told = out.addObject();
      told.put("stream", StreamQueries.stream(leaf));
      Map<String, String> options = new HashMap<>();
      told.put("named", StreamStarts.nameOf(leaf));
      if (leaf instanceof StreamingRelation first) {
        told.put("name", first.sourceName());
        told.put("format", first.dataSource().className());
        options.putAll(CollectionConverters.asJava(first.dataSource().options()));
      } else if (leaf instanceof StreamingRelationV2 second) {
        told.put("name", second.sourceName());
        told.put("format", second.sourceName());
        options.putAll(second.extraOptions().asCaseSensitiveMap());
      }
      ObjectNode given = told.putObject("options");
      options.forEach(given::put);
      ArrayNode columns = told.putArray("columns");
      StructType schema = new StructType();
      StructType whole = new StructType();
      for (Attribute one : CollectionConverters.asJava(leaf.output())) {
        columns.add(one.name());
        whole = whole.add(one.name(), one.dataType(), one.nullable());
        schema = one.metadata().contains(HIDDEN) ? schema : schema.add(one.name(), one.dataType(), one.nullable());
      }
      told.put("schema", schema.json());
      told.put("whole", whole.json());
    }
    return JSON.writeValueAsString(out);
  }

  /** The plan with a condition above each stream, in their order; an empty one leaves its stream alone. */
  public static Dataset<Row> filtered(SparkSession session, QueryExecution execution, List<String> conditions) {
    Map<LogicalPlan, LogicalPlan> instead = new HashMap<>();
    int number = 0;
    for (LogicalPlan leaf : streams(execution.analyzed())) {
      String condition = conditions.get(number++);
      if (StreamSegments.isResult(leaf) && !condition.isEmpty()) {
        instead.put(leaf, named(leaf, StreamSegments.narrowed(session, (StreamingRelation) leaf, condition)));
      } else if (!condition.isEmpty()) {
        List<String> names = CollectionConverters.asJava(leaf.output()).stream().map(Attribute::name).toList();
        instead.put(leaf, only(Dataset.ofRows(session, leaf), condition, names).queryExecution().analyzed());
      }
    }
    return Dataset.ofRows(session, replaced(execution.analyzed(), instead));
  }

  /** Those columns of the rows for which a condition holds; it may be about what these columns do not have. */
  static Dataset<Row> only(Dataset<Row> rows, String condition, List<String> names) {
    Column[] columns = names.stream().map(one -> rows.col("`" + one.replace("`", "``") + "`")).toArray(Column[]::new);
    return rows.where(condition).select(columns);
  }

  /**
   * The plan over these frames in place of its streams, in their order. Where it keeps state, what is below the lowest operators that do: the largest parts
   * without any.
   */
  public static List<Dataset<Row>> over(SparkSession session, QueryExecution execution, List<Dataset<Row>> frames) {
    Map<LogicalPlan, LogicalPlan> instead = new HashMap<>();
    int number = 0;
    for (LogicalPlan leaf : streams(execution.analyzed())) {
      instead.put(leaf, named(leaf, frames.get(number++).queryExecution().analyzed()));
    }
    Set<LogicalPlan> parts = new LinkedHashSet<>();
    below(execution.analyzed(), parts);
    List<Dataset<Row>> found = new ArrayList<>();
    parts.forEach(part -> found.add(Dataset.ofRows(session, replaced(part, instead))));
    return found;
  }

  private static void below(LogicalPlan node, Set<LogicalPlan> parts) {
    if (!node.isStreaming()) {
      return;
    }
    if (!StreamQueries.hasState(node)) {
      parts.add(node);
    } else {
      CollectionConverters.asJava(node.children()).forEach(child -> below(child, parts));
    }
  }

  /** Rows with the columns of a leaf, in its order and with its ids. */
  private static LogicalPlan named(LogicalPlan leaf, LogicalPlan rows) {
    List<NamedExpression> columns = new ArrayList<>();
    for (int i = 0; i < leaf.output().size(); i++) {
      Attribute was = leaf.output().apply(i);
      columns.add(new Alias(rows.output().apply(i), was.name(), was.exprId(), was.qualifier(), Option.empty(), SparkObjects.seq(List.of())));
    }
    return new Project(SparkObjects.seq(columns), rows);
  }

  static Set<LogicalPlan> streams(LogicalPlan plan) {
    Map<LogicalPlan, Boolean> found = new LinkedHashMap<>();
    look(plan, found);
    return found.keySet();
  }

  private static void look(LogicalPlan node, Map<LogicalPlan, Boolean> found) {
    if (node instanceof StreamingRelation || node instanceof StreamingRelationV2) {
      found.put(node, true);
    }
    CollectionConverters.asJava(node.children()).forEach(child -> look(child, found));
  }

  static LogicalPlan replaced(LogicalPlan node, Map<LogicalPlan, LogicalPlan> instead) {
    if (node.children().isEmpty()) {
      return instead.getOrDefault(node, node);
    }
    List<LogicalPlan> children = new ArrayList<>();
    boolean isOther = false;
    for (LogicalPlan child : CollectionConverters.asJava(node.children())) {
      LogicalPlan made = replaced(child, instead);
      isOther |= made != child;
      children.add(made);
    }
    return isOther ? node.withNewChildren(SparkObjects.seq(children)) : node;
  }
}
