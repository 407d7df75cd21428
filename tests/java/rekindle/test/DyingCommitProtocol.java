// SPDX-License-Identifier: Apache-2.0
package rekindle.test;

import org.apache.hadoop.mapreduce.TaskAttemptContext;

import rekindle.spark.AttemptCommitProtocol;

/** For tests: as if the executor died after Spark closed the file of a failed task and before it was removed. */
public final class DyingCommitProtocol extends AttemptCommitProtocol {
  private static final long serialVersionUID = 1L;

  public DyingCommitProtocol(String jobId, String path) {
    super(jobId, path);
  }

  @Override
  public void abortTask(TaskAttemptContext context) {
    // Dead.
  }
}
