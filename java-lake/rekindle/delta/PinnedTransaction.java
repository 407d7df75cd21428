// SPDX-License-Identifier: Apache-2.0
package rekindle.delta;

import org.apache.spark.sql.delta.CurrentTransactionInfo;
import org.apache.spark.sql.delta.DeltaLog;
import org.apache.spark.sql.delta.IsolationLevel;
import org.apache.spark.sql.delta.OptimisticTransaction;
import org.apache.spark.sql.delta.Snapshot;

import scala.Option;
import scala.Tuple2;

/**
 * A transaction that commits on top of the version that it read, or not at all. Delta's own would go on behind a commit that only
 * added rows: of two that bring one key, both would stay.
 */
final class PinnedTransaction extends OptimisticTransaction {
  /** Somebody else has committed the next version. */
  static final class Moved extends RuntimeException {
    private static final long serialVersionUID = 1L;

    Moved(long version) {
      super("version " + version + " is there");
    }
  }

  PinnedTransaction(DeltaLog log, Snapshot snapshot) {
    super(log, Option.empty(), snapshot);
  }

  @Override
  public Tuple2<Object, CurrentTransactionInfo> checkForConflicts(
      long version, CurrentTransactionInfo current, int attempt, IsolationLevel isolation) {
    throw new Moved(version);
  }
}
