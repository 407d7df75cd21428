// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.util.Arrays;

/**
 * A kept result in the hands of a script: the same files, but a source like any other for what is kept after it. The path of a committed file is never
 * used again, so that path and length tell which bytes are read.
 */
public final class KeptFiles extends CommittedFiles {
  public KeptFiles(String root, String names) {
    super(root, names);
  }

  /** The line that `Sources` tells of it. */
  String pin() {
    String[] names = inputFiles();
    Arrays.sort(names);
    return "files\t" + PlanShape.hash(String.join("\n", names) + "\n" + rootPaths().head()) + "\t" + names.length + "\t" + sizeInBytes();
  }
}
