// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.Serializable;

import org.apache.spark.sql.catalyst.InternalRow;

import scala.collection.Iterator;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/** Computes every row of a partition, and keeps none. */
final class Dropped extends AbstractFunction1<Iterator<InternalRow>, BoxedUnit> implements Serializable {
  private static final long serialVersionUID = 1L;

  @Override
  public BoxedUnit apply(Iterator<InternalRow> rows) {
    while (rows.hasNext()) {
      rows.next();
    }
    return BoxedUnit.UNIT;
  }
}
