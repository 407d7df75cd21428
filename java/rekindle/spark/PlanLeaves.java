// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.util.List;
import java.util.Map;

import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;

import scala.Function1;
import scala.runtime.AbstractPartialFunction;

/** The nodes of an analysed plan, and the plan with others in the place of some of them: also for the jars beside this one. */
public final class PlanLeaves {
  private PlanLeaves() {}

  /** Every node, with those of subqueries. */
  public static List<LogicalPlan> nodes(QueryExecution execution) {
    return Sources.nodes(execution.analyzed());
  }

  /** The same plan with other nodes in the place of those that are keys: the very same objects, not equal ones. */
  public static Dataset<Row> replaced(SparkSession session, QueryExecution execution, Map<LogicalPlan, LogicalPlan> instead) {
    return Dataset.ofRows(session, execution.analyzed().transformDownWithSubqueries(new Replacing(instead)));
  }

  private static final class Replacing extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private final Map<LogicalPlan, LogicalPlan> instead;

    Replacing(Map<LogicalPlan, LogicalPlan> instead) {
      this.instead = instead;
    }

    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return instead.containsKey(node);
    }

    @Override
    public LogicalPlan apply(LogicalPlan node) {
      return instead.get(node);
    }

    @Override
    public <A extends LogicalPlan, B> B applyOrElse(A node, Function1<A, B> otherwise) {
      @SuppressWarnings("unchecked")
      B made = (B) instead.get(node);
      return made == null ? otherwise.apply(node) : made;
    }
  }
}
