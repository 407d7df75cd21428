// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * The compactions of one region in a target, as publish/stream_compactions.py puts them: the highest number counts, and says up to which batch its files
 * stand for the entries. The digests of the offsets of these batches lie in {@code _offsets}, one line for each, in the directory of their range.
 */
record StreamCompactions(Path target, String region, String generation) {
  private static final String RANGE = "range\t";
  private static final int ROUNDS_MAX = 20;

  /** The last batch that the newest compaction has; -1 if there is none. */
  long through(Configuration settings) throws IOException {
    List<String[]> ranges = ranges(settings);
    return ranges.isEmpty() ? -1 : Long.parseLong(ranges.get(ranges.size() - 1)[2]);
  }

  /** Whether a compaction has this batch. Fails if it was committed from other offsets: another checkpoint wrote this generation. */
  boolean have(long batch, String offsets, Configuration settings) throws IOException {
    for (String[] range : ranges(settings)) {
      long first = Long.parseLong(range[1]);
      if (first <= batch && batch <= Long.parseLong(range[2])) {
        List<String> digests = read(new Path(target, range[3] + "/_offsets"), settings).lines().toList();
        if (!digests.get((int) (batch - first)).equals(offsets)) {
          throw new IllegalStateException(
              "batch " + batch + " was committed from other offsets: another checkpoint wrote this generation, see " + new Path(target, range[3]));
        }
        return true;
      }
    }
    return false;
  }

  private List<String[]> ranges(Configuration settings) throws IOException {
    Path folder = new Path(target, "compactions/" + region + "/" + generation);
    FileSystem store = folder.getFileSystem(settings);
    for (int round = 0; round < ROUNDS_MAX; round++) {
      Path newest;
      try {
        newest =
            Stream.of(store.listStatus(folder))
                .map(FileStatus::getPath)
                .filter(one -> one.getName().chars().allMatch(Character::isDigit))
                .max(Comparator.comparing(Path::getName))
                .orElse(null);
      } catch (FileNotFoundException none) {
        return List.of();
      }
      if (newest == null) {
        return List.of();
      }
      try {
        return read(newest, settings).lines().filter(line -> line.startsWith(RANGE)).map(line -> line.split("\t")).toList();
      } catch (FileNotFoundException replaced) {
        // A newer one took its place, and gc came between.
      }
    }
    throw new IOException("the compactions in " + folder + " cannot be read");
  }

  static String read(Path path, Configuration settings) throws IOException {
    try (FSDataInputStream in = path.getFileSystem(settings).open(path)) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
  }
}
