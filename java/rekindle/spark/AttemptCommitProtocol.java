// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;

import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.TaskContext;
import org.apache.spark.internal.io.FileCommitProtocol;
import org.apache.spark.internal.io.FileNameSpec;

import scala.Option;
import scala.collection.immutable.Seq;

/**
 * How the tasks of one attempt write and commit. One instance per Spark job.
 *
 * Rules:
 * 1. Names are unique per task attempt and files are written in place: no task can reach what another one wrote,
 *    however late it wakes up. There is no rename, because object stores have none.
 * 2. A task has committed if and only if its marker exists. A complete Parquet file is no proof: when a task fails,
 *    Spark closes its writer, and the closed file has a valid footer over half of the rows.
 * 3. The marker's name says everything (partition, Spark task attempt, number of files, bytes, rows, the digest if one
 *    was made), so that a new driver learns what a dead one finished from one listing. Empty partitions have a marker too.
 * 4. Nothing is removed when the job aborts. A failed task removes only the files it did not commit itself.
 * 5. Numbers are those of the kept result, also where a pruned job counts its tasks from 0, and stand in the file name
 *    where Spark's bucketed reader looks for them.
 * 6. The driver sees each commit as it happens, in a queue per attempt directory that Python drains in one call.
 * 7. A task commits only what its {@link Watch} found right. One that found a law violated leaves a mark: nothing of
 *    this attempt counts then, for no driver.
 */
public class AttemptCommitProtocol extends FileCommitProtocol implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final String MARKERS = "_committed";
  private static final String VIOLATED = "_violated";
  /** Directories of a run from that of an attempt upwards. */
  private static final int LEVELS = 4;
  private static final ConcurrentHashMap<String, Queue<String>> SEEN = new ConcurrentHashMap<>();

  /** Write option: the partitions that the job's tasks write, task i the i-th; absent if that is i itself. */
  public static final String PARTITIONS = "rekindle.partitions";
  /** Write option: the rows are watched on their way; absent where a step writes files of its own. */
  public static final String WATCHED = "rekindle.watched";

  private final String directory;
  private int[] partitions;
  private boolean isWatched;
  private transient List<Path> files;
  private transient boolean committing;

  public AttemptCommitProtocol(String jobId, String path) {
    this.directory = path;
  }

  /** All commits of this attempt directory since the last call, one per line: partition, task attempt, rows, (name, bytes)*, digest if one was made. */
  public static String drain(String directory) {
    Queue<String> queue = SEEN.get(directory);
    if (queue == null) {
      return "";
    }
    StringBuilder lines = new StringBuilder();
    for (String line = queue.poll(); line != null; line = queue.poll()) {
      lines.append(line).append('\n');
    }
    return lines.toString();
  }

  /** Begin to listen for the commits of an attempt. */
  static void open(String directory) {
    SEEN.put(directory, new ConcurrentLinkedQueue<>());
  }

  /** One more commit of an attempt that is listened for. */
  static void add(String directory, String line) {
    Queue<String> queue = SEEN.get(directory);
    if (queue != null) {
      queue.add(line);
    }
  }

  /** Forget an attempt that has ended. */
  public static void forget(String directory) {
    SEEN.remove(directory);
  }

  @Override
  public void setupJob(JobContext context) {
    String chosen = context.getConfiguration().get(PARTITIONS);
    if (chosen != null) {
      partitions = Bridge.numbers(Base64.getDecoder().decode(chosen));
      context.getConfiguration().unset(PARTITIONS); // Tasks get the numbers with this object, once.
    }
    isWatched = context.getConfiguration().getBoolean(WATCHED, false);
    open(directory);
  }

  @Override
  public void commitJob(JobContext context, Seq<TaskCommitMessage> messages) {
    // The journal, not the end of a Spark job, decides what counts.
  }

  @Override
  public void abortJob(JobContext context) {
    // What has committed stays: rule 4.
  }

  @Override
  public void setupTask(TaskAttemptContext context) {
    files = new ArrayList<>();
    committing = false;
    KeptParquet.take(); // What a failed task left in this thread.
    LocalFolders.mark();
  }

  @Override
  public String newTaskTempFile(TaskAttemptContext context, Option<String> dir, FileNameSpec spec) {
    String name = String.format("%spart-%d_%05d%s", spec.prefix(), attempt(), partition(context), ending(spec.suffix()));
    Path path = new Path(dir.isDefined() ? new Path(directory, dir.get()) : new Path(directory), name);
    files.add(path);
    return path.toString();
  }

  @Override
  public String newTaskTempFileAbsPath(TaskAttemptContext context, String absoluteDir, FileNameSpec spec) {
    throw new UnsupportedOperationException("a kept result has no custom partition locations");
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
      KeptParquet.Written written = KeptParquet.take();
      if (isWatched && !isToCount(written.rows())) {
        remove(context);
        return new TaskCommitMessage("");
      }
      FileSystem fs = new Path(directory).getFileSystem(context.getConfiguration());
      StringBuilder line = new StringBuilder().append(partition(context)).append('\t').append(attempt());
      line.append('\t').append(written.rows());
      long bytes = 0;
      for (Path file : files) {
        long length = fs.getFileStatus(file).getLen();
        bytes += length;
        line.append('\t').append(file.getName()).append('\t').append(length);
      }
      String name = String.format("%05d-%d-%d-%dr%d", partition(context), attempt(), files.size(), bytes, written.rows());
      if (!written.digest().isEmpty()) {
        line.append('\t').append(written.digest());
        name += "-" + written.digest();
      }
      committing = true;
      mark(fs, new Path(new Path(directory, MARKERS), name));
      return new TaskCommitMessage(line.toString());
    } catch (IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
  }

  /** False if Spark has other tasks than the layout has partitions, which is right only if there is no row in any of them: then none says which are empty. */
  private static boolean isToCount(long rows) {
    Watch watch = Watch.current();
    if (watch == null && rows > 0) {
      throw Laws.violated(rows + " rows were written that left no plan");
    }
    return watch != null && (watch.end(rows) > 0 || watch.isAsPlanned());
  }

  @Override
  public void abortTask(TaskAttemptContext context) {
    if (committing) {
      return; // The marker may have been written: "maybe" is not "no", so nothing is removed.
    }
    remove(context);
    Watch watch = Watch.current();
    if (isWatched && watch != null && watch.isViolated()) {
      try {
        mark(new Path(directory).getFileSystem(context.getConfiguration()), new Path(directory, VIOLATED));
      } catch (IOException e) {
        logWarning(() -> "could not mark " + directory + " as violated: " + e);
      }
    }
  }

  private void remove(TaskAttemptContext context) {
    for (Path file : files) {
      try {
        Bridge.delete(file.getFileSystem(context.getConfiguration()), file, LEVELS);
      } catch (IOException e) {
        // Garbage collection finds what could not be removed now: no marker names it.
        logWarning(() -> "could not remove " + file + ": " + e);
      }
    }
  }

  @Override
  public void onTaskCommit(TaskCommitMessage message) {
    if (!"".equals(message.obj())) {
      add(directory, (String) message.obj());
    }
  }

  private static void mark(FileSystem fs, Path path) throws IOException {
    FSDataOutputStreamBuilder<?, ?> builder = fs.createFile(path).overwrite(true).recursive();
    builder.opt("fs.s3a.create.performance", true); // The name is unique: no probe for an older object is needed.
    ((FSDataOutputStream) builder.build()).close();
  }

  private int partition(TaskAttemptContext context) {
    int index = context.getTaskAttemptID().getTaskID().getId();
    return partitions == null ? index : partitions[index];
  }

  /** Spark's suffix is "-c000.snappy.parquet" or ".c000…": the reader wants a dot after the number. */
  private static String ending(String suffix) {
    return suffix.startsWith("-") ? "." + suffix.substring(1) : suffix;
  }

  private static long attempt() {
    return TaskContext.get().taskAttemptId();
  }
}
