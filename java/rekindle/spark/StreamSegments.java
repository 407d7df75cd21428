// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxFiles;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.streaming.Offset;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation;
import org.apache.spark.sql.sources.StreamSourceProvider;
import org.apache.spark.sql.types.StructType;

import scala.Option;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The result of a streaming region as a stream for other regions: an offset is the number of the last batch of the producer that was read. Rules:
 * 1. A batch of the producer is there if and only if its entry is ({@link StreamFiles}). Entries have every number and never change, so all readers get the
 *    same rows however often they read them.
 * 2. Nothing is listed but at the very first start, for the oldest entry: new ones are told by the sink in this process, and looked for now and then.
 * 3. An entry that is gone is an error with its number, never an empty batch. gc leaves the last entry of the producer, and what a reader has not read: so
 *    where a reader finds neither the entry that it read last nor the next one, that one is gone.
 * 4. Spark asks for the last batch of a checkpoint again when it starts, and does not read it: what cannot be read is an error for who reads it.
 * 5. Where the rows of an entry are, and whether they can be read, is for {@link ResultLog} to say.
 */
public final class StreamSegments implements StreamSourceProvider {
  static final String NAME = "StreamSegments";
  private static final long LOOK_MS = 5_000;
  private static final String LIMIT = "100";
  private static final String CONDITION = "condition";
  private static final Map<String, Long> TOLD = new ConcurrentHashMap<>();

  /** The sink says that an entry is there. */
  public static void tell(Path entry) {
    TOLD.merge(entry.getParent().toString(), Long.parseLong(entry.getName()), Math::max);
  }

  /** Whether a stream of a plan is such a result. */
  static boolean isResult(LogicalPlan leaf) {
    return leaf instanceof StreamingRelation one && one.sourceName().startsWith(NAME + "[");
  }

  /** The same stream with the rows for which a condition holds: it may tell them by their files, of which a stream of a plan has no columns. */
  static LogicalPlan narrowed(SparkSession session, StreamingRelation leaf, String condition) {
    return session
        .readStream()
        .format(StreamSegments.class.getName())
        .schema(leaf.schema())
        .options(leaf.dataSource().options())
        .option(CONDITION, condition)
        .load()
        .queryExecution()
        .analyzed();
  }

  /** Of the batches of a result after one up to another: the numbers of those that cannot be read any more, one per line. Fails for one that gc took. */
  public static String lost(SparkSession session, String path, String region, String generation, Map<String, String> client, long after, long last)
      throws IOException {
    List<Long> found = new ResultLog(session, path, region, generation, client).lost(after + 1, last);
    return String.join("\n", found.stream().map(String::valueOf).toList());
  }

  /** The rows of the batches of a result after one up to another for which a condition holds, as a batch. */
  public static Dataset<Row> rows(
      SparkSession session, String path, String region, String generation, Map<String, String> client, String schema, long after, long last, String condition)
      throws IOException {
    ResultLog log = new ResultLog(session, path, region, generation, client);
    Map<Long, BatchRecord> batches = new TreeMap<>();
    for (long batch = after + 1; batch <= last; batch++) {
      batches.put(batch, log.read(batch));
    }
    return log.rows(batches, SparkObjects.schema(schema).asNullable(), false, condition);
  }

  @Override
  public Tuple2<String, StructType> sourceSchema(
      SQLContext context, Option<StructType> schema, String provider, scala.collection.immutable.Map<String, String> options) {
    return new Tuple2<>(NAME + "[" + folder(options) + "]", schema.get().asNullable());
  }

  @Override
  public Source createSource(
      SQLContext context, String metadata, Option<StructType> schema, String provider, scala.collection.immutable.Map<String, String> options) {
    return new Entries((SparkSession) context.sparkSession(), schema.get().asNullable(), options);
  }

  private static String folder(scala.collection.immutable.Map<String, String> options) {
    return options.apply("path") + "/entries/" + options.apply("region") + "/" + options.apply("generation");
  }

  /** The last batch of a result that was read: in a log it says of which one. */
  private static final class Position extends Offset {
    private static final Pattern ENTRY = Pattern.compile("\\{\"entry\":(-?\\d+),.*");
    private final long entry;
    private final String result;

    Position(long entry, String result) {
      this.entry = entry;
      this.result = result;
    }

    static long of(String json) {
      Matcher found = ENTRY.matcher(json);
      if (!found.matches()) {
        throw new IllegalStateException("this is no position in a result: " + json);
      }
      return Long.parseLong(found.group(1));
    }

    @Override
    public String json() {
      return "{\"entry\":" + entry + ",\"result\":\"" + result + "\"}";
    }
  }

  private static final class Entries implements Source, SupportsTriggerAvailableNow {
    private final ResultLog log;
    private final Path folder;
    private final StructType schema;
    private final int limit;
    private final String condition;
    private final Configuration settings;
    private boolean isFollowed;
    private long known = -1;
    private long lookedMs;
    private long last = Long.MAX_VALUE;

    Entries(SparkSession session, StructType schema, scala.collection.immutable.Map<String, String> options) {
      this.log = new ResultLog(session, options.apply("path"), options.apply("region"), options.apply("generation"), CollectionConverters.asJava(options));
      this.folder = log.entries();
      this.schema = schema;
      this.limit = Integer.parseInt(options.getOrElse("maxEntriesPerTrigger", () -> LIMIT));
      this.condition = options.getOrElse(CONDITION, () -> "");
      this.settings = session.sessionState().newHadoopConf();
    }

    @Override
    public StructType schema() {
      return schema;
    }

    @Override
    public Option<Offset> getOffset() {
      throw new UnsupportedOperationException("latestOffset is asked with a limit");
    }

    @Override
    public ReadLimit getDefaultReadLimit() {
      return ReadLimit.maxFiles(limit);
    }

    @Override
    public void prepareForTriggerAvailableNow() {
      last = newest(oldest());
    }

    @Override
    public org.apache.spark.sql.connector.read.streaming.Offset latestOffset(
        org.apache.spark.sql.connector.read.streaming.Offset start, ReadLimit asked) {
      long from = start == null ? oldest() : follow(Position.of(start.json()));
      long most = asked instanceof ReadMaxFiles files ? files.maxFiles() : Integer.MAX_VALUE;
      long upto = Math.min(Math.min(newest(from), last), from + most);
      return upto > from ? new Position(upto, step()) : start;
    }

    @Override
    public Dataset<Row> getBatch(Option<Offset> start, Offset end) {
      long from = start.isDefined() ? Position.of(start.get().json()) : oldest();
      try {
        Map<Long, BatchRecord> batches = new TreeMap<>();
        for (long entry = from + 1; entry <= Position.of(end.json()); entry++) {
          batches.put(entry, read(entry));
        }
        return log.rows(batches, schema, true, condition);
      } catch (ResultBatchGone | ResultBatchesLost why) {
        return log.unreadable(why, schema);
      }
    }

    @Override
    public void stop() {
      // Nothing is held.
    }

    @Override
    public String toString() {
      return NAME + "[" + folder + "]";
    }

    private FileSystem store() throws IOException {
      return folder.getFileSystem(settings);
    }

    /** A position, after a look, once, whether what comes after it can still be read. */
    private long follow(long position) {
      if (!isFollowed && !exists(position) && !exists(position + 1)) {
        throw gone(position + 1, null);
      }
      isFollowed = true;
      return position;
    }

    private ResultBatchGone gone(long entry, Exception why) {
      return new ResultBatchGone(entry, step(), why);
    }

    /** The step whose result this is. */
    private String step() {
      return folder.getParent().getName();
    }

    /** The position before the oldest entry. */
    private long oldest() {
      try {
        long found = Long.MAX_VALUE;
        for (FileStatus one : store().listStatus(folder)) {
          String name = one.getPath().getName();
          found = name.chars().allMatch(Character::isDigit) ? Math.min(found, Long.parseLong(name)) : found;
        }
        return found == Long.MAX_VALUE ? -1 : found - 1;
      } catch (FileNotFoundException none) {
        return -1;
      } catch (IOException failed) {
        throw new UncheckedIOException(failed);
      }
    }

    /** The last entry, found in steps that grow: between two of them there is none missing. */
    private long newest(long from) {
      known = Math.max(Math.max(known, from), TOLD.getOrDefault(folder.toString(), -1L));
      long now = System.currentTimeMillis();
      if (now - lookedMs < LOOK_MS) {
        return known;
      }
      lookedMs = now;
      long step = 1;
      while (exists(known + step)) {
        known += step;
        step *= 2;
      }
      for (; step > 0; step /= 2) {
        known += exists(known + step) ? step : 0;
      }
      return known;
    }

    private boolean exists(long entry) {
      try {
        return store().exists(new Path(folder, Long.toString(entry)));
      } catch (IOException failed) {
        throw new UncheckedIOException(failed);
      }
    }

    private BatchRecord read(long entry) {
      try {
        return log.read(entry);
      } catch (FileNotFoundException missing) {
        throw gone(entry, missing);
      } catch (IOException failed) {
        throw new UncheckedIOException(failed);
      }
    }
  }
}
