// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.Serializable;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.OutputWriter;

import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction2;

/**
 * What the laws cost by the CPU of a task's thread, for the bench: rows that lie in memory go to a writer that only looks at them, watched and counted as the
 * product does it, and not. In turn, so that what the machine does hits both.
 */
public final class LawsCost extends AbstractFunction2<TaskContext, Iterator<InternalRow>, String> implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final int WARM_UP = 20;

  private final Laws laws;
  private final int rows;
  private final int rounds;

  private LawsCost(Laws laws, int rows, int rounds) {
    this.laws = laws;
    this.rows = rows;
    this.rounds = rounds;
  }

  /** One line per task: nanoseconds for one row, watched and not, medians over the rounds, and unwatched once more. */
  public static String of(RDD<InternalRow> found, Laws laws, int rows, int rounds) {
    Object[] lines = (Object[]) found.context().runJob(found, new LawsCost(laws, rows, rounds), ClassTag$.MODULE$.<String>apply(String.class));
    return String.join("\n", Arrays.stream(lines).map(String::valueOf).toList());
  }

  @Override
  public String apply(TaskContext context, Iterator<InternalRow> found) {
    List<InternalRow> copies = new ArrayList<>();
    while (found.hasNext() && copies.size() < rows) {
      copies.add(found.next().copy());
    }
    double[] watched = new double[rounds];
    double[] plain = new double[rounds];
    double[] again = new double[rounds];
    for (int round = -WARM_UP; round < rounds; round++) {
      double[] used = {plain(copies), watched(copies), plain(copies)};
      if (round >= 0) {
        plain[round] = used[0] / copies.size();
        watched[round] = used[1] / copies.size();
        again[round] = used[2] / copies.size();
      }
    }
    return median(watched) + " " + median(plain) + " " + median(again) + " " + copies.size();
  }

  private double plain(List<InternalRow> copies) {
    return drained(new Rows(copies), new Sink());
  }

  private double watched(List<InternalRow> copies) {
    ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    long before = threads.getCurrentThreadCpuTime();
    KeptParquet.Writer writer = new KeptParquet.Writer(new Sink(), null);
    Watch watch = laws.watch(new Rows(copies));
    drained(watch, writer);
    writer.close();
    watch.end(KeptParquet.take().rows());
    return threads.getCurrentThreadCpuTime() - before;
  }

  private static double drained(Iterator<InternalRow> rows, OutputWriter writer) {
    ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    long before = threads.getCurrentThreadCpuTime();
    while (rows.hasNext()) {
      writer.write(rows.next());
    }
    return threads.getCurrentThreadCpuTime() - before;
  }

  private static double median(double[] found) {
    double[] sorted = found.clone();
    Arrays.sort(sorted);
    return sorted[sorted.length / 2];
  }

  private static final class Rows extends AbstractIterator<InternalRow> {
    private final List<InternalRow> rows;
    private int at;

    Rows(List<InternalRow> rows) {
      this.rows = rows;
    }

    @Override
    public boolean hasNext() {
      return at < rows.size();
    }

    @Override
    public InternalRow next() {
      return rows.get(at++);
    }
  }

  private static final class Sink extends OutputWriter {
    private long fields;

    @Override
    public void write(InternalRow row) {
      fields += row.numFields();
    }

    @Override
    public void close() {}

    @Override
    public String path() {
      return "" + fields;
    }
  }
}
