// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.util.ArrayList;
import java.util.List;

import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.optimizer.BuildRight$;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.PartitioningCollection;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.BroadcastQueryStageExec;
import org.apache.spark.sql.execution.adaptive.ExchangeQueryStageExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.exchange.BroadcastExchangeLike;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike;
import org.apache.spark.sql.execution.joins.BroadcastHashJoinExec;
import org.apache.spark.sql.execution.joins.HashJoin;
import org.apache.spark.sql.execution.joins.ShuffledJoin;
import org.apache.spark.sql.execution.python.MapInBatchExec;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import scala.jdk.javaapi.CollectionConverters;

/**
 * A physical plan as one text: node by node it would be a hundred calls from Python, and each plan is looked at several times.
 *
 * <p>Nodes stand in the order of a walk from the top; each has the number of its children. The plans of subqueries are counted, and the stand-ins told that
 * they read. Columns are named by their ids; an expression that is no column is -1.
 */
public final class PlanNodes {
  private static final ObjectMapper JSON = new ObjectMapper();

  private PlanNodes() {}

  /** All nodes as a JSON array. */
  public static String of(SparkPlan plan) throws JsonProcessingException {
    ArrayNode out = JSON.createArrayNode();
    for (SparkPlan node : below(plan)) {
      ObjectNode one = out.addObject();
      one.put("name", node.getClass().getSimpleName());
      one.put("children", children(node).size());
      one.put("subqueries", node.subqueries().size());
      CollectionConverters.asJava(node.subqueries()).forEach(subquery -> places(subquery, one.withArray("handed")));
      one.put("is_barrier", node instanceof MapInBatchExec batches && batches.isBarrier());
      columns(node, one.putArray("ids"), one.putArray("names"));
      partitioning(node, one);
      exchange(node, one);
      one.put("is_foreign", !node.getClass().getName().startsWith("org.apache.spark.sql."));
      keys(node, one);
      if (node instanceof BroadcastHashJoinExec join) {
        one.put("streamed", join.buildSide() instanceof BuildRight$ ? 0 : 1);
      }
      if (node instanceof FileSourceScanExec scan) {
        one.put("is_bucketed", scan.relation().bucketSpec().isDefined());
        FileIndex index = scan.relation().location();
        one.put("index", index instanceof StandIn ? CommittedFiles.class.getSimpleName() : index.getClass().getSimpleName());
        one.put("place", place(scan));
      }
    }
    return JSON.writeValueAsString(out);
  }

  /** Where a stand-in says that its files are; empty if it is none. */
  private static String place(FileSourceScanExec scan) {
    return scan.relation().location() instanceof StandIn index ? index.rootPaths().head().toString() : "";
  }

  private static void places(SparkPlan subquery, ArrayNode out) {
    for (SparkPlan node : below(subquery)) {
      if (node instanceof FileSourceScanExec scan && !place(scan).isEmpty()) {
        out.add(place(scan));
      }
      CollectionConverters.asJava(node.subqueries()).forEach(inner -> places(inner, out));
    }
  }

  /** The node with a number of that array. */
  public static SparkPlan at(SparkPlan plan, int number) {
    return below(plan).get(number);
  }

  private static List<SparkPlan> below(SparkPlan plan) {
    List<SparkPlan> found = new ArrayList<>();
    walk(plan, found);
    return found;
  }

  private static void walk(SparkPlan plan, List<SparkPlan> found) {
    found.add(plan);
    for (SparkPlan child : children(plan)) {
      walk(child, found);
    }
  }

  private static List<SparkPlan> children(SparkPlan plan) {
    if (plan instanceof AdaptiveSparkPlanExec adaptive) {
      return List.of(adaptive.executedPlan());
    }
    if (plan instanceof QueryStageExec stage) {
      return List.of(stage.plan());
    }
    return CollectionConverters.asJava(plan.children());
  }

  private static void columns(SparkPlan node, ArrayNode ids, ArrayNode names) {
    for (Attribute attribute : CollectionConverters.asJava(node.output())) {
      ids.add(attribute.exprId().id());
      names.add(attribute.name());
    }
  }

  private static void partitioning(SparkPlan node, ObjectNode one) {
    Partitioning partitioning = node.outputPartitioning();
    one.put("partitioning", partitioning.getClass().getSimpleName());
    one.put("count", partitioning.numPartitions());
    hashes(partitioning, one.putArray("hashes"));
  }

  /** Told by class, whatever the node is called: an exchange moves rows, and says why it is there, which tells whether its partitions may still change. */
  private static void exchange(SparkPlan node, ObjectNode one) {
    if (node instanceof BroadcastExchangeLike || node instanceof BroadcastQueryStageExec) {
      one.put("moves", "all rows to all");
    } else if (node instanceof Exchange || node instanceof ExchangeQueryStageExec) {
      one.put("moves", "rows");
    }
    if (node instanceof ShuffleExchangeLike shuffle) {
      one.put("origin", shuffle.shuffleOrigin().toString());
    }
  }

  /** A join lies by the keys of both of its sides. */
  private static void hashes(Partitioning partitioning, ArrayNode out) {
    if (partitioning instanceof HashPartitioning hash) {
      ObjectNode one = out.addObject();
      one.put("partitions", hash.numPartitions());
      ids(hash.expressions(), one.putArray("keys"));
    } else if (partitioning instanceof PartitioningCollection several) {
      CollectionConverters.asJava(several.partitionings()).forEach(part -> hashes(part, out));
    }
  }

  private static void keys(SparkPlan node, ObjectNode one) {
    if (node instanceof HashJoin join) {
      ids(join.leftKeys(), one.putArray("left"));
      ids(join.rightKeys(), one.putArray("right"));
    } else if (node instanceof ShuffledJoin join) {
      ids(join.leftKeys(), one.putArray("left"));
      ids(join.rightKeys(), one.putArray("right"));
    }
  }

  private static void ids(scala.collection.immutable.Seq<Expression> expressions, ArrayNode out) {
    for (Expression expression : CollectionConverters.asJava(expressions)) {
      out.add(expression instanceof AttributeReference column ? column.exprId().id() : -1L);
    }
  }
}
