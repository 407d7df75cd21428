// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;

import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/**
 * The rows of one task as they leave its plan: counted, a few of them looked at, the stage's tasks compared with the layout. {@link Laws} says what must
 * hold. Whoever writes the rows in the same thread finds it by its task.
 */
final class Watch extends AbstractIterator<InternalRow> {
  private static final ThreadLocal<Watch> CURRENT = new ThreadLocal<>();
  /** After so many rows, every eighth part of them later one is looked at: a hundred of a million. */
  private static final int SHIFT = 3;

  private final Laws laws;
  private final Iterator<InternalRow> rows;
  private final long attempt;
  private final int task;
  private final int tasks;
  private long count;
  private long next;
  private boolean isStarted;
  private boolean isDone;
  private boolean isViolated;

  Watch(Laws laws, Iterator<InternalRow> rows) {
    TaskContext context = TaskContext.get();
    this.laws = laws;
    this.rows = rows;
    this.attempt = context.taskAttemptId();
    this.task = context.partitionId();
    this.tasks = context.numPartitions();
    CURRENT.set(this);
  }

  /** That of the task that runs in this thread; null if its rows come from no plan, so that there are none. */
  static Watch current() {
    Watch found = CURRENT.get();
    return found != null && found.attempt == TaskContext.get().taskAttemptId() ? found : null;
  }

  @Override
  public boolean hasNext() {
    if (!isStarted) {
      start();
    }
    boolean has = rows.hasNext();
    isDone = !has;
    return has;
  }

  @Override
  public InternalRow next() {
    InternalRow row = rows.next();
    if (count == next) {
      look(row);
    }
    count++;
    return row;
  }

  /** Does the stage have the tasks that the layout asks for? If not, and there was no row, this task says nothing of its partition. */
  boolean isAsPlanned() {
    return tasks == laws.tasks() || (laws.mayBeFewer() && tasks < laws.tasks()) || !laws.looksAfter(Laws.TASKS);
  }

  boolean isViolated() {
    return isViolated;
  }

  /** All rows are out, and so many were written. Returns their number. */
  long end(long written) {
    if (laws.looksAfter(Laws.ROWS) && (written != count || !isDone)) {
      throw violated(count + (isDone ? "" : " and more") + " rows left the plan of partition " + partition() + ", " + written + " were written");
    }
    return written;
  }

  private void start() {
    isStarted = true;
    if (laws.looksAfter(Laws.TASKS) && tasks > laws.tasks()) {
      throw otherTasks();
    }
  }

  private void look(InternalRow row) {
    if (!isAsPlanned()) {
      throw otherTasks();
    }
    if (laws.place() != null) {
      int place = (Integer) laws.place().eval(row);
      if (place != partition()) {
        throw violated("row " + (count + 1) + " of partition " + partition() + " belongs to partition " + place + " by its keys");
      }
    }
    next += 1 + (next >> SHIFT);
  }

  private int partition() {
    return laws.partition(task);
  }

  private IllegalStateException otherTasks() {
    return violated("Spark writes " + tasks + " partitions where the layout has " + laws.tasks());
  }

  private IllegalStateException violated(String what) {
    isViolated = true;
    return Laws.violated(what);
  }
}
