// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.Serializable;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.QueryExecution;

import scala.collection.Iterator;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/** Computes every row of a partition, and keeps none. */
public final class DroppedRows extends AbstractFunction1<Iterator<InternalRow>, BoxedUnit> implements Serializable {
  private static final long serialVersionUID = 1L;

  private DroppedRows() {}

  /** Compute a batch that its sink has already: its state must go on. */
  public static void compute(QueryExecution execution) {
    execution.toRdd().foreachPartition(new DroppedRows());
  }

  @Override
  public BoxedUnit apply(Iterator<InternalRow> rows) {
    while (rows.hasNext()) {
      rows.next();
    }
    return BoxedUnit.UNIT;
  }
}
