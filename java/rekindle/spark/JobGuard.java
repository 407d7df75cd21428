// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.util.Collections;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;

/**
 * Stops the stages of adaptive execution in a thread that may not start Spark jobs.
 *
 * <p>Spark refuses a job of a group that was cancelled in advance, but not a map stage that adaptive execution submits by itself: it would run to its end
 * before the job above it is refused. This rule is asked before each such stage. It never changes a plan; in all other threads it does nothing.
 */
public final class JobGuard extends Rule<SparkPlan> {
  private static final String GROUP = "spark.jobGroup.id";
  private static final String TAGS = "spark.job.tags";
  private static final Set<SparkSessionExtensions> GUARDED = Collections.newSetFromMap(new WeakHashMap<>());
  private static final Set<String> STOPPED = ConcurrentHashMap.newKeySet();

  private final SparkContext context;
  private final String group;

  private JobGuard(SparkContext context, String group) {
    this.context = context;
    this.group = group;
  }

  /** From now on sessions that are cloned from this one are guarded, in threads whose jobs belong to `group`. */
  public static void install(SparkSession session, String group) {
    SparkSessionExtensions extensions = session.extensions();
    synchronized (GUARDED) {
      if (GUARDED.add(extensions)) {
        extensions.injectQueryStageOptimizerRule(cloned -> new JobGuard(cloned.sparkContext(), group));
      }
    }
  }

  /** From now on Spark jobs of `group` are refused in all sessions of this application. */
  public static void refuseJobs(SparkContext context, String group) {
    SparkLine.refuseJobs(context, group);
  }

  /** Whether a stage was stopped in a thread with this job tag. Told once. */
  public static boolean hasStopped(String tag) {
    return STOPPED.removeIf(tags -> tags.contains(tag));
  }

  @Override
  public SparkPlan apply(SparkPlan plan) {
    if (!group.equals(context.getLocalProperty(GROUP))) {
      return plan;
    }
    STOPPED.add(String.valueOf(context.getLocalProperty(TAGS)));
    throw new IllegalStateException("a stage of the job group " + group + " is not started");
  }
}
