// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;

import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.SinglePartition$;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.exchange.BroadcastExchangeLike;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;

import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What the final stage of a physical plan is given by its exchanges: the logical plans whose rows they move. Where each of these is determinate, so is what the
 * final stage reads, whatever it makes of it.
 *
 * <p>Asked is every exchange that is below no other one, each broadcast and each subquery. An exchange counts only if columns alone decide where a row goes. What
 * is not known here makes the answer null: nothing is proved then.
 */
public final class BelowExchanges {
  /** Operators that have no logical plan of their own, and that change no row and none of its values. */
  private static final Set<String> CHANGES_NOTHING =
      Set.of("SortExec", "ColumnarToRowExec", "WholeStageCodegenExec", "InputAdapter", "AQEShuffleReadExec", "SubqueryExec", "ReusedSubqueryExec");
  /** Operators that move rows between partitions without an exchange that could be asked. */
  private static final Set<String> MOVES_HIDDEN =
      Set.of("CollectLimitExec", "CollectTailExec", "TakeOrderedAndProjectExec", "AttachDistributedSequenceExec");

  private BelowExchanges() {}

  /** Those logical plans; null where something is not known. */
  public static List<LogicalPlan> of(SparkPlan plan) {
    List<LogicalPlan> found = new ArrayList<>();
    return isKnown(plan, found) ? found : null;
  }

  private static boolean isKnown(SparkPlan node, List<LogicalPlan> found) {
    SparkPlan within = within(node);
    if (within != null) {
      return isKnown(within, found);
    }
    if (node instanceof Exchange exchange) {
      return isByColumns(exchange) && isTold(exchange.child(), found);
    }
    boolean isForeign = !node.getClass().getName().startsWith("org.apache.spark.sql.") && !node.children().isEmpty();
    if (isForeign || MOVES_HIDDEN.contains(node.getClass().getSimpleName())) {
      return false;
    }
    for (SparkPlan subquery : CollectionConverters.asJava(node.subqueries())) {
      if (!isTold(subquery, found)) {
        return false;
      }
    }
    for (SparkPlan child : CollectionConverters.asJava(node.children())) {
      if (!isKnown(child, found)) {
        return false;
      }
    }
    return true;
  }

  /** The plan that a node only stands for; null if it stands for itself. */
  private static SparkPlan within(SparkPlan node) {
    if (node instanceof AdaptiveSparkPlanExec adaptive) {
      return adaptive.executedPlan();
    }
    if (node instanceof QueryStageExec stage) {
      return stage.plan();
    }
    return node instanceof ReusedExchangeExec reused ? reused.child() : null;
  }

  /** A row goes where its columns say, all rows go to one place, or all rows go to every place. */
  private static boolean isByColumns(Exchange exchange) {
    Partitioning partitioning = exchange.outputPartitioning();
    if (exchange instanceof BroadcastExchangeLike || partitioning instanceof SinglePartition$) {
      return true;
    }
    return partitioning instanceof HashPartitioning hash
        && CollectionConverters.asJava(hash.expressions()).stream().allMatch(Attribute.class::isInstance);
  }

  private static boolean isTold(SparkPlan node, List<LogicalPlan> found) {
    SparkPlan within = within(node);
    if (within != null) {
      return isTold(within, found);
    }
    Option<LogicalPlan> told = node.logicalLink();
    if (told.isDefined()) {
      return found.add(told.get());
    }
    boolean isPassed = node instanceof Exchange || CHANGES_NOTHING.contains(node.getClass().getSimpleName());
    return isPassed && node.children().size() == 1 && isTold(node.children().head(), found);
  }
}
