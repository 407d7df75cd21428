// SPDX-License-Identifier: Apache-2.0
package rekindle.iceberg;

import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.exceptions.CleanableFailure;
import org.apache.iceberg.exceptions.CommitFailedException;

/**
 * The operations of a table that commit on top of the metadata that was looked at, and of no other. Iceberg's own look again by themselves, and apply a change to
 * whatever came meanwhile: a fence that was compared with the old metadata would be compared with nothing. Here such a commit fails, and is not tried again.
 */
final class PinnedOperations extends ForwardedOperations {
  private final TableMetadata base;

  PinnedOperations(TableOperations operations, TableMetadata base) {
    super(operations);
    this.base = base;
  }

  /** Somebody else came first. It is no CommitFailedException, which Iceberg tries again; manifests that were written for it are deleted. */
  static final class Moved extends RuntimeException implements CleanableFailure {
    private static final long serialVersionUID = 1;

    Moved(CommitFailedException cause) {
      super(cause.getMessage(), cause);
    }
  }

  @Override
  public TableMetadata current() {
    return base;
  }

  @Override
  public TableMetadata refresh() {
    return base;
  }

  @Override
  public void commit(TableMetadata from, TableMetadata to) {
    try {
      operations.commit(base, to);
    } catch (CommitFailedException e) {
      throw new Moved(e);
    }
  }
}
