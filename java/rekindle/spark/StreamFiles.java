// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.UUID;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.datasources.FileFormatWriter;
import org.apache.spark.sql.execution.datasources.FileFormatWriter$;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.sources.StreamSinkProvider;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.StructType;

import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The files of a streaming region, exactly once: each batch is one entry, which names its files. Rules:
 * 1. A batch counts if and only if its entry exists: {@code entries/REGION/GENERATION/BATCH}, put if absent. A second entry of a batch cannot be.
 * 2. Files lie in a directory of (batch, epoch, a name of its own): no driver reaches what another one wrote.
 * 3. The fence is looked at before the rows are computed and again before the entry: a driver that lost the region ends with a sentence.
 * 4. A batch whose entry is there already is computed all the same, and its rows dropped: its state must go on, and Spark refuses a stateful batch that is
 *    skipped.
 * 5. What counts is linked below {@code current} on a disk after its entry is there; a batch that is computed again links what is missing (StreamView). The
 *    result of a region, which has no owner, is for other regions only ({@link StreamSegments}): it is not linked.
 * 6. A target has one stream at a time, by the number of its owner: whoever has a lower one adds nothing.
 * 7. The result of a region has the digest of its rows in the entry, so that a batch that was made again can be compared. With room for that much
 *    ({@code memory}, in bytes) its rows are blocks on executors ({@link StreamBlocks}), and no files; with a {@code topic} they are records of it
 *    ({@link TopicBatches}).
 * 8. The entry has the digest of the offsets of its batch, as the checkpoint has them. Where it is there already with another one, two checkpoints write
 *    into one generation: that is refused.
 * 9. A batch that a compaction has counts as one whose entry is there. Its own entry may be gone: one that is put again is read by nobody. So it is
 *    looked for only until the first batch that no compaction has.
 */
public final class StreamFiles implements StreamSinkProvider {
  @Override
  public Sink createSink(
      SQLContext context, scala.collection.immutable.Map<String, String> options, Seq<String> partitionColumns, OutputMode mode) {
    PutIfAbsent.refuseOthers(new Path(options.apply("path")), context.sparkSession().sessionState().newHadoopConf());
    return new Batches(
        new Path(options.apply("path")),
        options.apply("region"),
        options.apply("generation"),
        new Path(options.apply("checkpoint")),
        Long.parseLong(options.getOrElse("owner", () -> "0")),
        Long.parseLong(options.getOrElse("memory", () -> "0")),
        CollectionConverters.asJava(options));
  }

  /** Rows that were written: name and length of each file or block, and their digest, empty where none was made. */
  record Written(List<String> files, String rows) {}

  /** The rows of a frame as files in a directory: their digest, empty if none is wanted, then name and length of each; one per line. Names are used once. */
  public static String written(SparkSession session, QueryExecution execution, String directory, boolean isDigested) {
    List<String> lines = new ArrayList<>();
    SQLExecution.withNewExecutionId(
        execution,
        Option.empty(),
        () -> {
          Written written = write(session, execution, directory, session.sessionState().newHadoopConf(), isDigested);
          lines.add(written.rows());
          return lines.addAll(written.files());
        });
    return String.join("\n", lines);
  }

  private static Written write(SparkSession session, QueryExecution execution, String directory, Configuration settings, boolean isDigested) {
    StreamCommitProtocol protocol = new StreamCommitProtocol(directory);
    StructType schema = execution.analyzed().schema();
    boolean hasDigest = isDigested && Kinds.isKnown(schema);
    Object[] given = {
      session,
      execution.executedPlan(),
      hasDigest ? new KeptParquet(true) : new ParquetFileFormat(),
      protocol,
      new FileFormatWriter.OutputSpec(directory, SparkLine.immutable(Map.of()), execution.analyzed().output()),
      settings,
      SparkObjects.seq(List.of()),
      Option.empty(),
      SparkObjects.seq(List.of()),
      SparkLine.immutable(Map.of()),
      0
    };
    call(given);
    return new Written(protocol.committed(), hasDigest ? RowDigest.sum(protocol.digests(), schema) : "");
  }

  /** Spark's writer of files, which has a twelfth parameter with a default since 4.3. */
  private static void call(Object[] given) {
    Class<?> writer = FileFormatWriter$.MODULE$.getClass();
    try {
      for (Method one : writer.getMethods()) {
        if (one.getName().equals("write")) {
          Object[] all = Arrays.copyOf(given, one.getParameterCount());
          if (all.length > given.length) {
            all[given.length] = writer.getMethod("write$default$" + all.length).invoke(FileFormatWriter$.MODULE$);
          }
          one.invoke(FileFormatWriter$.MODULE$, all);
          return;
        }
      }
      throw new IllegalStateException("this Spark has no writer of files");
    } catch (InvocationTargetException failed) {
      // As it is: Spark knows by its class that a query was stopped.
      StreamFiles.<RuntimeException>raise(failed.getCause());
    } catch (ReflectiveOperationException unknown) {
      throw new IllegalStateException("the writer of files of this Spark is not known", unknown);
    }
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> void raise(Throwable failed) throws E {
    throw (E) failed;
  }

  private static final class Batches implements Sink {
    private final Path target;
    private final String region;
    private final String generation;
    private final Path checkpoint;
    private final long owner;
    private final long memory;
    private final Map<String, String> options;
    private boolean isAfterCompactions;

    Batches(Path target, String region, String generation, Path checkpoint, long owner, long memory, Map<String, String> options) {
      this.target = target;
      this.region = region;
      this.generation = generation;
      this.checkpoint = checkpoint;
      this.owner = owner;
      this.memory = memory;
      this.options = options;
    }

    @Override
    public void addBatch(long batch, Dataset<Row> rows) {
      SparkSession session = (SparkSession) rows.sparkSession();
      Configuration settings = session.sessionState().newHadoopConf();
      StreamFence fence = StreamFence.of(settings);
      QueryExecution execution = ((org.apache.spark.sql.classic.Dataset<Row>) rows).queryExecution();
      Path entry = new Path(target, "entries/" + region + "/" + generation + "/" + batch);
      StreamFence ownership = StreamFence.ofTarget(target, owner);
      try {
        StreamHolds.await(target);
        fence.look(settings);
        if (owner > 0) {
          ownership.look(settings);
        }
        String offsets = digest(new Path(checkpoint, "offsets/" + batch), settings);
        if (entry.getFileSystem(settings).exists(entry)) {
          refuseOther(entry, offsets, settings);
          DroppedRows.compute(execution);
          seen(entry, settings);
          return;
        }
        if (!isAfterCompactions && new StreamCompactions(target, region, generation).have(batch, offsets, settings)) {
          DroppedRows.compute(execution);
          return;
        }
        isAfterCompactions = true;
        String name = "data/" + region + "/" + generation + "/" + batch + "-" + fence.epoch() + "-" + UUID.randomUUID();
        String directory = new Path(target, name).toString();
        Map<String, String> head = Map.of(BatchRecord.EPOCH, Long.toString(fence.epoch()), BatchRecord.OFFSETS, offsets, BatchRecord.DIRECTORY, name);
        BatchRecord made = options.containsKey(BatchRecord.TOPIC) ? sent(session, execution, batch, head, directory) : written(session, execution, head, directory, settings);
        fence.look(settings);
        if (put(entry, made, fence, settings) && memory > 0) {
          StreamBlocks.keep(session, target.toString(), batch, directory, made.files(), memory);
        }
        seen(entry, settings);
      } catch (InterruptedException stopped) {
        Thread.currentThread().interrupt();
        throw new UncheckedIOException(new InterruptedIOException("stopped while it was held"));
      } catch (IOException failed) {
        throw new UncheckedIOException(failed);
      }
    }

    private BatchRecord sent(SparkSession session, QueryExecution execution, long batch, Map<String, String> head, String directory) {
      Map<String, Object> of = Map.of("region", region, "generation", generation, "batch", batch, "query", head.get(BatchRecord.EPOCH));
      Map<String, String> words = new HashMap<>(new TopicBatches(session, options.get(BatchRecord.TOPIC), options).send(execution, of, directory));
      words.putAll(head);
      return new BatchRecord(words, List.of());
    }

    private BatchRecord written(SparkSession session, QueryExecution execution, Map<String, String> head, String directory, Configuration settings) {
      boolean isResult = owner == 0;
      Written written =
          memory > 0 ? StreamBlocks.write(session, execution, directory, settings) : write(session, execution, directory, settings, isResult);
      Map<String, String> words = new HashMap<>(head);
      if (!written.rows().isEmpty()) {
        words.put(BatchRecord.ROWS, written.rows());
      }
      if (memory > 0) {
        words.put(BatchRecord.BLOCKS, session.sparkContext().applicationId());
      }
      return new BatchRecord(words, written.files());
    }

    /**
     * Whether it is ours. Where an entry of the same offsets came first, ours is dropped: it was put by a driver that lost the region since, or by a request of
     * our own.
     */
    private static boolean put(Path entry, BatchRecord made, StreamFence fence, Configuration settings) throws IOException {
      try {
        PutIfAbsent.put(entry, made.text().getBytes(StandardCharsets.UTF_8), settings);
        return true;
      } catch (FileAlreadyExistsException taken) {
        fence.look(settings);
        refuseOther(entry, made.offsets(), settings);
        return false;
      }
    }

    private void seen(Path entry, Configuration settings) throws IOException {
      if (owner == 0) {
        StreamSegments.tell(entry);
      } else if (target.getFileSystem(settings) instanceof LocalFileSystem) {
        new StreamView(target, region, generation).link(Long.parseLong(entry.getName()), settings);
      }
    }

    private static void refuseOther(Path entry, String offsets, Configuration settings) throws IOException {
      String found = new String(read(entry, settings), StandardCharsets.UTF_8);
      if (!found.contains("\noffsets\t" + offsets + "\n")) {
        throw new IllegalStateException(
            "batch " + entry.getName() + " was committed to " + entry.getParent() + " from other offsets: another checkpoint wrote this generation");
      }
    }

    private static String digest(Path path, Configuration settings) throws IOException {
      try {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(read(path, settings)));
      } catch (NoSuchAlgorithmException impossible) {
        throw new IllegalStateException(impossible);
      }
    }

    private static byte[] read(Path path, Configuration settings) throws IOException {
      FileSystem store = path.getFileSystem(settings);
      try (FSDataInputStream in = store.open(path)) {
        return in.readAllBytes();
      }
    }
  }
}
