// SPDX-License-Identifier: Apache-2.0
package rekindle.test;

import static java.nio.file.StandardOpenOption.CREATE_NEW;
import static java.nio.file.StandardOpenOption.WRITE;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;

import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.TaskContext;

import rekindle.spark.AttemptCommitProtocol;

/**
 * For tests: the first task attempt at partition 3 of the step `totals` stops at the door of its commit. It leaves a file that says so, and
 * goes on when another file appears. The folder of both is the environment variable REKINDLE_GATE.
 */
public final class GatedCommitProtocol extends AttemptCommitProtocol {
  private static final long serialVersionUID = 1L;
  private static final int GATED = 3;

  private final boolean isGated;

  public GatedCommitProtocol(String jobId, String path) {
    super(jobId, path);
    isGated = path.contains("/results/totals/");
  }

  @Override
  public TaskCommitMessage commitTask(TaskAttemptContext context) {
    if (isGated && TaskContext.get().partitionId() == GATED) {
      waitAtTheGate(Path.of(System.getenv("REKINDLE_GATE")));
    }
    return super.commitTask(context);
  }

  private static void waitAtTheGate(Path gate) {
    try {
      Files.writeString(gate.resolve("waiting"), Long.toString(ProcessHandle.current().pid()), CREATE_NEW, WRITE);
      while (!Files.exists(gate.resolve("open"))) {
        sleep();
      }
    } catch (FileAlreadyExistsException e) {
      return; // Somebody waits or waited: only the first is held up.
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static void sleep() {
    try {
      Thread.sleep(20);
    } catch (InterruptedException e) {
      // A late commit that does not listen to anybody is what is to be shown: go on waiting.
      Thread.interrupted();
    }
  }
}
