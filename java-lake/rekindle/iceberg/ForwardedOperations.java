// SPDX-License-Identifier: Apache-2.0
package rekindle.iceberg;

import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.encryption.EncryptionManager;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.LocationProvider;

/** The operations of a table, all but those that read and swap its metadata. */
abstract class ForwardedOperations implements TableOperations {
  protected final TableOperations operations;

  protected ForwardedOperations(TableOperations operations) {
    this.operations = operations;
  }

  @Override
  public FileIO io() {
    return operations.io();
  }

  @Override
  public EncryptionManager encryption() {
    return operations.encryption();
  }

  @Override
  public String metadataFileLocation(String name) {
    return operations.metadataFileLocation(name);
  }

  @Override
  public LocationProvider locationProvider() {
    return operations.locationProvider();
  }

  @Override
  public TableOperations temp(TableMetadata uncommitted) {
    return operations.temp(uncommitted);
  }

  @Override
  public long newSnapshotId() {
    return operations.newSnapshotId();
  }

  @Override
  public boolean requireStrictCleanup() {
    return operations.requireStrictCleanup();
  }
}
