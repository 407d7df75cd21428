// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.Serializable;
import java.util.List;

import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.SparkPlan;

import scala.collection.Iterator;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction1;

/** A plan whose rows are watched as they leave it. It stands above the plan that is held, for one write, and is shown nowhere. */
final class WatchedRows extends SparkPlan {
  private static final long serialVersionUID = 1L;
  private final SparkPlan child;
  private final transient Laws laws;

  WatchedRows(SparkPlan child, Laws laws) {
    this.child = child;
    this.laws = laws;
  }

  @Override
  public RDD<InternalRow> doExecute() {
    return child.execute().mapPartitions(new Watching(laws), true, ClassTag$.MODULE$.apply(InternalRow.class));
  }

  @Override
  public Seq<Attribute> output() {
    return child.output();
  }

  @Override
  public Partitioning outputPartitioning() {
    return child.outputPartitioning();
  }

  @Override
  public Seq<SortOrder> outputOrdering() {
    return child.outputOrdering();
  }

  @Override
  public Seq<SparkPlan> children() {
    return CollectionConverters.asScala(List.of(child)).toSeq();
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> made) {
    return new WatchedRows(made.head(), laws);
  }

  @Override
  public Object productElement(int at) {
    return child;
  }

  @Override
  public int productArity() {
    return 1;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof WatchedRows;
  }

  private static final class Watching extends AbstractFunction1<Iterator<InternalRow>, Iterator<InternalRow>> implements Serializable {
    private static final long serialVersionUID = 1L;
    private final Laws laws;

    Watching(Laws laws) {
      this.laws = laws;
    }

    @Override
    public Iterator<InternalRow> apply(Iterator<InternalRow> rows) {
      return laws.watch(rows);
    }
  }
}
