// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.IOException;
import java.io.UncheckedIOException;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * Whose a region is: the folder of the fence has an object for each epoch, put by the driver that took the region, each by the number after the one before.
 * A driver whose next number is there has lost the region. To look is not to hold: what counts is put only if it is absent, after a look.
 */
public record StreamFence(String folder, long epoch, String what) {
  static final String FOLDER = "spark.rekindle.stream.fence";
  static final String EPOCH = "spark.rekindle.stream.epoch";

  /** The fence of the session whose settings these are; one without a folder stops nobody. */
  public static StreamFence of(Configuration settings) {
    return new StreamFence(settings.get(FOLDER, ""), settings.getLong(EPOCH, 0), "driver took this region");
  }

  /** The fence of a target: its owners have numbers, too. */
  public static StreamFence ofTarget(Path target, long number) {
    return new StreamFence(new Path(target, "owners").toString(), number, "stream took this target");
  }

  /** Fails if another driver has the region. */
  public void look(Configuration settings) {
    if (folder.isEmpty()) {
      return;
    }
    Path next = new Path(folder, Long.toString(epoch + 1));
    try {
      if (next.getFileSystem(settings).exists(next)) {
        throw new IllegalStateException("fenced: another " + what + " with epoch " + (epoch + 1) + ", this one has epoch " + epoch);
      }
    } catch (IOException failed) {
      throw new UncheckedIOException("the fence of this region cannot be read, so nothing is written: " + failed.getMessage(), failed);
    }
  }
}
