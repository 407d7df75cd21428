// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;

import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.TaskContext;
import org.apache.spark.internal.io.FileCommitProtocol;
import org.apache.spark.internal.io.FileNameSpec;

import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * How the tasks of one batch write: in place, under names that no other task attempt has, without markers and without a rename. What counts is what the
 * committed tasks name to the driver, which puts it into the entry of the batch; everything else is left for garbage collection.
 */
final class StreamCommitProtocol extends FileCommitProtocol implements Serializable {
  private static final long serialVersionUID = 1L;
  private final String directory;
  private transient List<Path> files;
  private transient List<String> committed;

  StreamCommitProtocol(String directory) {
    this.directory = directory;
  }

  /** After the job: name and length of each file, one per line. */
  List<String> committed() {
    return committed;
  }

  @Override
  public void setupJob(JobContext context) {
    committed = new ArrayList<>();
  }

  @Override
  public void commitJob(JobContext context, Seq<TaskCommitMessage> messages) {
    for (TaskCommitMessage message : CollectionConverters.asJava(messages)) {
      committed.addAll(((String) message.obj()).lines().toList());
    }
  }

  @Override
  public void abortJob(JobContext context) {
    // No entry names its files.
  }

  @Override
  public void setupTask(TaskAttemptContext context) {
    files = new ArrayList<>();
  }

  @Override
  public String newTaskTempFile(TaskAttemptContext context, Option<String> dir, FileNameSpec spec) {
    int task = context.getTaskAttemptID().getTaskID().getId();
    Path path = new Path(directory, String.format("%spart-%05d-%d%s", spec.prefix(), task, TaskContext.get().taskAttemptId(), spec.suffix()));
    files.add(path);
    return path.toString();
  }

  @Override
  public String newTaskTempFileAbsPath(TaskAttemptContext context, String absoluteDir, FileNameSpec spec) {
    throw new UnsupportedOperationException("a stream has no custom partition locations");
  }

  @Override
  public TaskCommitMessage commitTask(TaskAttemptContext context) {
    try {
      StringBuilder lines = new StringBuilder();
      for (Path file : files) {
        FileSystem store = file.getFileSystem(context.getConfiguration());
        lines.append(file.getName()).append('\t').append(store.getFileStatus(file).getLen()).append('\n');
      }
      return new TaskCommitMessage(lines.toString());
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
  }

  @Override
  public void abortTask(TaskAttemptContext context) {
    // A name that was used once is never used again: nothing has to go now.
  }
}
