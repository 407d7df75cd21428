// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;

import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What must hold of the rows that the tasks of one Spark job write, whatever plan Spark ended with:
 *
 * <ol>
 *   <li>TASKS: the stage has as many tasks as partitions are written. Fewer only where the layout says so, or where there is no row at all.
 *   <li>ROWS: a task writes the rows that its plan gave, to the last one.
 *   <li>PLACES: a row lies in the partition that its keys say. Rows are sampled: each of the first, then fewer and fewer.
 * </ol>
 *
 * Each task looks for itself and fails before it commits, so that neither a retry nor a speculative task raises an alarm, and whoever adopts what a task
 * committed adopts what was looked at.
 */
public final class Laws implements Serializable {
  private static final long serialVersionUID = 1L;
  static final String TASKS = "tasks";
  static final String ROWS = "rows";
  static final String PLACES = "places";

  private final String step;
  private final int tasks;
  private final boolean mayBeFewer;
  private final int[] numbers;
  private final List<String> held;
  /** Where a row belongs, as Spark's own exchange says it; null where no keys do. */
  private final Expression place;

  private Laws(String step, int tasks, boolean mayBeFewer, int[] numbers, List<String> held, Expression place) {
    this.step = step;
    this.tasks = tasks;
    this.mayBeFewer = mayBeFewer;
    this.numbers = numbers;
    this.held = held;
    this.place = place;
  }

  /**
   * `tasks` is the number there must be, `numbers` the partition of each (little-endian ints), none if task i writes partition i. Without keys nothing is
   * said of places. `held` are the laws that are looked after: all of them, but in tests.
   */
  public static Laws of(
      String step, StructType schema, List<String> keys, int partitions, int tasks, boolean mayBeFewer, byte[] numbers, List<String> held) {
    List<String> looked = new ArrayList<>(held);
    Expression place = keys.isEmpty() || !looked.contains(PLACES) ? null : place(schema, keys, partitions);
    return new Laws(step, tasks, mayBeFewer, Bridge.numbers(numbers), looked, place);
  }

  private static Expression place(StructType schema, List<String> keys, int partitions) {
    List<Expression> columns = new ArrayList<>();
    for (String key : keys) {
      columns.add(column(schema, key));
    }
    return new HashPartitioning(CollectionConverters.asScala(columns).toSeq(), partitions).partitionIdExpression();
  }

  private static Expression column(StructType schema, String key) {
    int found = -1;
    for (int at = 0; at < schema.size(); at++) {
      String name = schema.apply(at).name();
      if (name.equals(key)) {
        found = at;
        break;
      }
      found = name.equalsIgnoreCase(key) ? at : found;
    }
    if (found < 0) {
      throw violated("the rows have no column " + key + ", by which they should lie");
    }
    StructField field = schema.apply(found);
    return new BoundReference(found, field.dataType(), field.nullable());
  }

  /** Python knows it by its first word. A class of our own would not reach it: the driver reads errors of tasks with Spark's classes alone. */
  static IllegalStateException violated(String what) {
    return new IllegalStateException("LawViolated: " + what);
  }

  /** The rows of a task on their way out of its plan. */
  Watch watch(Iterator<InternalRow> rows) {
    Drill.pass(step, partition(TaskContext.getPartitionId()));
    return new Watch(this, rows);
  }

  boolean looksAfter(String law) {
    return held.contains(law);
  }

  int tasks() {
    return tasks;
  }

  boolean mayBeFewer() {
    return mayBeFewer;
  }

  Expression place() {
    return place;
  }

  /** The partition that a task writes. */
  int partition(int task) {
    return numbers.length == 0 ? task : numbers[task];
  }
}
