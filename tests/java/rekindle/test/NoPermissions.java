// SPDX-License-Identifier: Apache-2.0
package rekindle.test;

import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/** The local disk without Hadoop's `chmod`, a process of its own for every file. */
public final class NoPermissions extends LocalFileSystem {
  public NoPermissions() {
    super(new Raw());
  }

  private static final class Raw extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission permission) {
      // Files have what the user's mask leaves.
    }
  }
}
