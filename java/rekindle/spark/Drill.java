// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;

import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;

/**
 * Failures on order, for `rekindle graph --if … --execute`: tasks wait while a file says so, and one of them fails where a file says so. The files lie in a
 * folder that all processes of the drill see; without the setting, in every other run, nothing is looked at.
 */
final class Drill {
  static final String FOLDER = "spark.rekindle.drill";
  private static final long LOOK_MS = 50;

  private Drill() {}

  /** Before the first row of a vertex: `hold-STEP-PARTITION` holds it, and `fail-STEP-PARTITION` makes it fail, once. */
  static void pass(String step, int partition) {
    String folder = SparkEnv.get().conf().get(FOLDER, "");
    if (folder.isEmpty()) {
      return;
    }
    Path here = Path.of(folder);
    String vertex = step + "-" + partition;
    try {
      while (Files.exists(here.resolve("hold-" + vertex))) {
        note(here.resolve("held-" + vertex));
        TaskContext context = TaskContext.get();
        if (context.isInterrupted()) {
          throw new TaskKilledException("the drill went on without " + vertex);
        }
        Thread.sleep(LOOK_MS);
      }
      if (Files.deleteIfExists(here.resolve("fail-" + vertex))) {
        throw new IllegalStateException("the drill makes " + step + "[" + partition + "] fail");
      }
    } catch (IOException failed) {
      throw new IllegalStateException(failed);
    } catch (InterruptedException interrupted) {
      throw new TaskKilledException("the drill was interrupted in " + vertex);
    }
  }

  private static void note(Path held) throws IOException {
    try {
      Files.createFile(held);
    } catch (FileAlreadyExistsException known) {
      // It is held since an earlier look.
    }
  }
}
