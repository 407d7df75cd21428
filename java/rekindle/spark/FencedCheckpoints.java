// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.IOException;
import java.io.UncheckedIOException;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager;

/**
 * The checkpoint files of a region. Rules:
 * 1. An entry of a log (offsets, commits, files seen) is put whole, and only if it is absent: of two drivers in the same batch one goes on.
 * 2. The fence is looked at before an entry is made and again before it is put: a driver that lost the region ends here, with a sentence.
 * 3. What may be overwritten (state) is left to Spark, and so are tasks, which write it: the commit log names the state files that count, where Spark has
 *    checkpoint format 2.
 */
public final class FencedCheckpoints extends FileContextBasedCheckpointFileManager {
  private final Configuration settings;
  private final StreamFence fence;

  public FencedCheckpoints(Path path, Configuration settings) {
    super(path, settings);
    PutIfAbsent.refuseOthers(path, settings);
    this.settings = settings;
    this.fence = StreamFence.of(settings);
  }

  @Override
  public CheckpointFileManager.CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) {
    if (overwriteIfPossible) {
      return super.createAtomic(path, true);
    }
    fence.look(settings);
    try {
      return new Entry(PutIfAbsent.open(path, settings));
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
  }

  /** Spark asks before it makes an entry: one that it finds there may be another driver's. */
  @Override
  public boolean exists(Path path) {
    boolean isThere = super.exists(path);
    if (isThere) {
      fence.look(settings);
    }
    return isThere;
  }

  /** Not there until it is whole. */
  private final class Entry extends CheckpointFileManager.CancellableFSDataOutputStream {
    private final PutIfAbsent made;
    private boolean isOver;

    Entry(PutIfAbsent made) {
      super(made.out());
      this.made = made;
    }

    @Override
    public synchronized void close() throws IOException {
      if (!isOver) {
        isOver = true;
        try {
          flush();
          fence.look(settings);
        } catch (IOException | RuntimeException failed) {
          made.abandon();
          throw failed;
        }
        made.put();
      }
    }

    @Override
    public synchronized void cancel() {
      if (!isOver) {
        isOver = true;
        made.abandon();
      }
    }
  }
}
