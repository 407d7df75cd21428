// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Arrays;
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
 * committed tasks name to the driver, which puts it into the entry of the batch; everything else is left for garbage collection. The digests of the files are
 * those that their writer made ({@link KeptParquet}), if it made any.
 */
final class StreamCommitProtocol extends FileCommitProtocol implements Serializable {
  private static final long serialVersionUID = 1L;
  private final String directory;
  private transient List<Path> files;
  private transient List<String> digests;
  private transient List<String> committed;
  private transient List<String> seen;

  StreamCommitProtocol(String directory) {
    this.directory = directory;
  }

  /** After the job: name and length of each file, one per line. */
  List<String> committed() {
    return committed;
  }

  /** After the job: the digest of each file, empty for one without. */
  List<String> digests() {
    return seen;
  }

  @Override
  public void setupJob(JobContext context) {
    committed = new ArrayList<>();
    seen = new ArrayList<>();
  }

  @Override
  public void commitJob(JobContext context, Seq<TaskCommitMessage> messages) {
    for (TaskCommitMessage message : CollectionConverters.asJava(messages)) {
      // Of Java's own classes: an executor may have another loader for ours.
      String[] told = (String[]) message.obj();
      committed.addAll(told[0].lines().toList());
      seen.addAll(Arrays.asList(told).subList(1, told.length));
    }
  }

  @Override
  public void abortJob(JobContext context) {
    // No entry names its files.
  }

  @Override
  public void setupTask(TaskAttemptContext context) {
    files = new ArrayList<>();
    digests = new ArrayList<>();
  }

  @Override
  public String newTaskTempFile(TaskAttemptContext context, Option<String> dir, FileNameSpec spec) {
    take();
    int task = context.getTaskAttemptID().getTaskID().getId();
    Path path = new Path(directory, String.format("%spart-%05d-%d%s", spec.prefix(), task, TaskContext.get().taskAttemptId(), spec.suffix()));
    files.add(path);
    return path.toString();
  }

  @Override
  public String newTaskTempFileAbsPath(TaskAttemptContext context, String absoluteDir, FileNameSpec spec) {
    throw new UnsupportedOperationException("a stream has no custom partition locations");
  }

  /** Spark before 4.1 declares this one and the next, and calls those above instead. */
  @SuppressWarnings("deprecation")
  public String newTaskTempFile(TaskAttemptContext context, Option<String> dir, String ending) {
    return newTaskTempFile(context, dir, new FileNameSpec("", ending));
  }

  @SuppressWarnings("deprecation")
  public String newTaskTempFileAbsPath(TaskAttemptContext context, String absoluteDir, String ending) {
    return newTaskTempFileAbsPath(context, absoluteDir, new FileNameSpec("", ending));
  }

  @Override
  public TaskCommitMessage commitTask(TaskAttemptContext context) {
    try {
      take();
      StringBuilder lines = new StringBuilder();
      for (Path file : files) {
        FileSystem store = file.getFileSystem(context.getConfiguration());
        lines.append(file.getName()).append('\t').append(store.getFileStatus(file).getLen()).append('\n');
      }
      List<String> told = new ArrayList<>(List.of(lines.toString()));
      told.addAll(digests);
      return new TaskCommitMessage(told.toArray(new String[0]));
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
  }

  /** A file is closed before the next one is asked for, and before its task commits. */
  private void take() {
    if (digests.size() < files.size()) {
      digests.add(KeptParquet.take().digest());
    }
  }

  @Override
  public void abortTask(TaskAttemptContext context) {
    // A name that was used once is never used again: nothing has to go now.
  }
}
