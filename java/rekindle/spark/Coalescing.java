// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Function;

import org.apache.spark.Partition;
import org.apache.spark.rdd.PartitionCoalescer;
import org.apache.spark.rdd.PartitionGroup;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CoalesceExec;
import org.apache.spark.sql.execution.SparkPlan;

import scala.Option;
import scala.runtime.AbstractPartialFunction;

/**
 * A coalesce whose partitions are put together as we say. Spark puts together what lies on one host, or what follows each other in an order that the
 * sizes of files decide: another driver would find other partitions.
 */
public final class Coalescing {
  private Coalescing() {}

  /** The rows below the coalesce of a plan, by the partitions that it puts together. One that is below it must not change them, and is left out. */
  public static RDD<InternalRow> below(SparkSession session, SparkPlan plan) {
    return session.withActive(() -> bare(first(plan)).execute());
  }

  /** The rows of a plan with a coalesce. `groups` are little-endian ints: of each partition how many it has of those below, and their numbers. */
  public static RDD<InternalRow> rows(SparkSession session, SparkPlan plan, byte[] groups) {
    CoalesceExec found = first(plan);
    int[][] chosen = unpacked(Bridge.numbers(groups));
    return session.withActive(() -> plan.transform(replaced(one -> new Grouped(found, bare(found), chosen))).execute());
  }

  private static SparkPlan bare(CoalesceExec coalesce) {
    return coalesce.child().transformUp(replaced(CoalesceExec::child));
  }

  private static CoalesceExec first(SparkPlan plan) {
    SparkPlan node = plan;
    while (!(node instanceof CoalesceExec)) {
      if (node.children().size() != 1) {
        throw new IllegalStateException("there is no coalesce above the leaves of " + plan);
      }
      node = node.children().head();
    }
    return (CoalesceExec) node;
  }

  private static int[][] unpacked(int[] packed) {
    List<int[]> groups = new ArrayList<>();
    for (int at = 0; at < packed.length; at += packed[at] + 1) {
      groups.add(Arrays.copyOfRange(packed, at + 1, at + 1 + packed[at]));
    }
    return groups.toArray(int[][]::new);
  }

  private static AbstractPartialFunction<SparkPlan, SparkPlan> replaced(Function<CoalesceExec, SparkPlan> by) {
    return new AbstractPartialFunction<>() {
      @Override
      public boolean isDefinedAt(SparkPlan plan) {
        return plan instanceof CoalesceExec;
      }

      @Override
      @SuppressWarnings("unchecked")
      public <A extends SparkPlan, B> B applyOrElse(A plan, scala.Function1<A, B> otherwise) {
        return plan instanceof CoalesceExec one ? (B) by.apply(one) : otherwise.apply(plan);
      }
    };
  }

  /** Stands in the place of Spark's own node. */
  private static final class Grouped extends AboveOne {
    private static final long serialVersionUID = 1L;
    private final CoalesceExec of;
    private final transient int[][] groups;

    Grouped(CoalesceExec of, SparkPlan child, int[][] groups) {
      super(child);
      this.of = of;
      this.groups = groups;
    }

    @Override
    public RDD<InternalRow> doExecute() {
      return child.execute().coalesce(groups.length, false, Option.apply(new Chosen(groups)), null);
    }

    @Override
    public Partitioning outputPartitioning() {
      return of.outputPartitioning();
    }

    @Override
    SparkPlan above(SparkPlan made) {
      return new Grouped(of, made, groups);
    }
  }

  private static final class Chosen implements PartitionCoalescer, Serializable {
    private static final long serialVersionUID = 1L;
    private final int[][] groups;

    Chosen(int[][] groups) {
      this.groups = groups;
    }

    @Override
    public PartitionGroup[] coalesce(int most, RDD<?> parent) {
      Partition[] below = parent.partitions();
      PartitionGroup[] made = new PartitionGroup[groups.length];
      for (int i = 0; i < groups.length; i++) {
        made[i] = new PartitionGroup(Option.empty());
        for (int number : groups[i]) {
          made[i].partitions().$plus$eq(below[number]);
        }
      }
      return made;
    }
  }
}
