// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.Serializable;

import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.execution.SparkPlan;

import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction1;

/** A plan whose rows are watched as they leave it. It stands above the plan that is held, for one write. */
final class WatchedRows extends AboveOne {
  private static final long serialVersionUID = 1L;
  private final transient Laws laws;

  WatchedRows(SparkPlan child, Laws laws) {
    super(child);
    this.laws = laws;
  }

  @Override
  public RDD<InternalRow> doExecute() {
    return child.execute().mapPartitions(new Watching(laws), true, ClassTag$.MODULE$.apply(InternalRow.class));
  }

  @Override
  public Seq<SortOrder> outputOrdering() {
    return child.outputOrdering();
  }

  @Override
  SparkPlan above(SparkPlan made) {
    return new WatchedRows(made, laws);
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
