// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.util.Set;
import java.util.TreeSet;

import org.apache.spark.ContextCleaner;
import org.apache.spark.SparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.plans.physical.RangePartitioning;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.BroadcastQueryStageExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.adaptive.ShuffleQueryStageExec;
import org.apache.spark.sql.execution.exchange.BroadcastExchangeLike;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike;

import scala.jdk.javaapi.CollectionConverters;

/**
 * Exchanges by name. Spark removes the files of one when its garbage collector finds that nobody refers to it; this removes them now, on all executors, with
 * Spark's own code for it. Nothing is waited for.
 *
 * <p>The plan is only looked at where it has run: to ask an exchange that has not would run what is below it.
 */
public final class Exchanges {
  private Exchanges() {}

  /** Let go what a query execution that is over made on the executors: its shuffles, also those in `known` (little-endian ints), and its broadcasts. */
  public static void release(SparkContext context, SparkPlan plan, byte[] known) {
    if (context.cleaner().isEmpty()) {
      return; // The user switched Spark's cleaning off.
    }
    Set<Integer> shuffles = new TreeSet<>();
    Set<Long> broadcasts = new TreeSet<>();
    for (int id : Bridge.numbers(known)) {
      shuffles.add(id);
    }
    find(plan, shuffles, broadcasts);
    ContextCleaner cleaner = context.cleaner().get();
    shuffles.forEach(id -> cleaner.doCleanupShuffle(id, false));
    broadcasts.forEach(id -> cleaner.doCleanupBroadcast(id, false));
  }

  private static void find(SparkPlan plan, Set<Integer> shuffles, Set<Long> broadcasts) {
    if (plan instanceof AdaptiveSparkPlanExec adaptive) {
      find(adaptive.executedPlan(), shuffles, broadcasts);
    } else if (plan instanceof QueryStageExec stage) {
      if (stage.isMaterialized()) {
        made(stage, shuffles, broadcasts);
      }
      find(stage.plan(), shuffles, broadcasts);
    }
    CollectionConverters.asJava(plan.children()).forEach(child -> find(child, shuffles, broadcasts));
    CollectionConverters.asJava(plan.subqueries()).forEach(child -> find(child, shuffles, broadcasts));
  }

  /**
   * Whether a plan that failed on its way will fail for ever: what a broadcast, a subquery or the sample of a total order came to is kept by its node, be it
   * an error. A subquery does not tell what it came to, and without adaptive execution neither does any of them.
   */
  public static boolean isStuck(SparkPlan plan) {
    return plan instanceof AdaptiveSparkPlanExec adaptive ? isStuck(adaptive.executedPlan(), true) : isStuck(plan, false);
  }

  private static boolean isStuck(SparkPlan plan, boolean isAdaptive) {
    if (plan instanceof QueryStageExec stage) {
      return !stage.isMaterialized() && keepsErrors(stage.plan()) || isStuckBelow(stage.plan(), isAdaptive);
    }
    return !isAdaptive && keepsErrors(plan) || isStuckBelow(plan, isAdaptive);
  }

  private static boolean isStuckBelow(SparkPlan plan, boolean isAdaptive) {
    return !plan.subqueries().isEmpty()
        || CollectionConverters.asJava(plan.children()).stream().anyMatch(child -> isStuck(child, isAdaptive));
  }

  /** An exchange that starts Spark jobs of its own, once. */
  private static boolean keepsErrors(SparkPlan plan) {
    return plan instanceof BroadcastExchangeLike
        || plan instanceof ShuffleExchangeLike && plan.outputPartitioning() instanceof RangePartitioning;
  }

  private static void made(QueryStageExec stage, Set<Integer> shuffles, Set<Long> broadcasts) {
    if (stage instanceof ShuffleQueryStageExec shuffle) {
      shuffles.add(SparkLine.shuffleId(shuffle.shuffle()));
    } else if (stage instanceof BroadcastQueryStageExec && stage.resultOption().get().get() instanceof Broadcast<?> broadcast) {
      broadcasts.add(broadcast.id());
    }
  }
}
