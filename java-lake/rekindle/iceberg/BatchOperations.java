// SPDX-License-Identifier: Apache-2.0
package rekindle.iceberg;

import java.util.Map;

import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.exceptions.CleanableFailure;

/**
 * The operations of a table for the commit of one batch. Rules:
 * 1. The commit sets a property of the table to the number of the batch, in the same swap of the metadata that adds its files.
 * 2. Whenever the metadata is read, also after somebody else came first, the property is looked at: a batch that is there is not added again. Iceberg swaps only what
 *    was read, so that nothing comes between the look and the swap. A catalog that merges changes on its side (REST) compares the snapshot, which each batch makes anew.
 */
final class BatchOperations extends ForwardedOperations {
  static final long NONE = -1;

  private final String property;
  private final long batch;
  private boolean isCommitted;

  BatchOperations(TableOperations operations, String property, long batch) {
    super(operations);
    this.property = property;
    this.batch = batch;
  }

  /** The table has the batch, or a later one. */
  static final class BatchThere extends RuntimeException implements CleanableFailure {
    private static final long serialVersionUID = 1;

    BatchThere(long batch, long last) {
      super("batch " + batch + " is not added: the table has batch " + last + " by now");
    }
  }

  /** The last batch that a table has, by the property of its stream. */
  static long last(TableMetadata table, String property) {
    String told = table.properties().get(property);
    return told == null ? NONE : Long.parseLong(told);
  }

  @Override
  public TableMetadata current() {
    return operations.current();
  }

  @Override
  public TableMetadata refresh() {
    TableMetadata now = operations.refresh();
    long last = last(now, property);
    if (last >= batch && !isCommitted) {
      throw new BatchThere(batch, last);
    }
    return now;
  }

  @Override
  public void commit(TableMetadata from, TableMetadata to) {
    operations.commit(from, TableMetadata.buildFrom(to).setProperties(Map.of(property, Long.toString(batch))).build());
    isCommitted = true;
  }
}
