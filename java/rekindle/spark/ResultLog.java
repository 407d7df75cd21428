// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.StructType;

import scala.Option;

/**
 * The batches of a result between regions, as their readers have them. Rules:
 * 1. The entry of a batch says where its rows are: files, blocks on executors of one application, or records of a topic.
 * 2. A batch that was made again has objects {@code replays/REGION/GENERATION/BATCH.NUMBER} beside its entry: that with the highest number counts. They are
 *    listed once for each reader: one that was put later is for somebody who could not read the batch, and so is every reader that comes to it.
 * 3. What cannot be read any more is told by its batch before a job reads it.
 * 4. A condition may speak of the batch of a row by {@link #BATCH}. The directory of a file or block tells it, and a header of a record.
 */
final class ResultLog {
  static final String REPLAYS = "replays";
  /** In a condition: the number of the batch, as text. */
  static final String BATCH = "{{batch}}";
  private static final String OF_FILE = "substring_index(substring_index(substring_index(_metadata.file_path, '/', -2), '/', 1), '-', 1)";
  /** A damaged file is an error, never fewer rows. */
  private static final Map<String, String> STRICT =
      Map.of("ignoreMissingFiles", "false", "ignoreCorruptFiles", "false", "parquet.page.verify-checksum.enabled", "true");
  private final SparkSession session;
  private final String base;
  private final String region;
  private final String generation;
  private final Map<String, String> client;
  private final Configuration settings;
  private Map<Long, Path> replays;

  /** `client` is what Spark is told of the brokers, where its batches are records of a topic. */
  ResultLog(SparkSession session, String base, String region, String generation, Map<String, String> client) {
    this.session = session;
    this.base = base;
    this.region = region;
    this.generation = generation;
    this.client = client;
    this.settings = session.sessionState().newHadoopConf();
  }

  Path entries() {
    return new Path(base, "entries/" + region + "/" + generation);
  }

  /** What counts of a batch. A file that is not there is one that gc took. */
  BatchRecord read(long batch) throws IOException {
    if (replays == null) {
      replays = replays();
    }
    Path found = replays.getOrDefault(batch, new Path(entries(), Long.toString(batch)));
    return BatchRecord.of(StreamCompactions.read(found, settings));
  }

  private Map<Long, Path> replays() throws IOException {
    Map<Long, Path> found = new HashMap<>();
    Map<Long, Integer> newest = new HashMap<>();
    Path folder = new Path(base, REPLAYS + "/" + region + "/" + generation);
    try {
      for (FileStatus one : folder.getFileSystem(settings).listStatus(folder)) {
        String[] parts = one.getPath().getName().split("\\.");
        if (parts.length == 2 && (parts[0] + parts[1]).chars().allMatch(Character::isDigit)) {
          long batch = Long.parseLong(parts[0]);
          int number = Integer.parseInt(parts[1]);
          if (newest.merge(batch, number, Math::max) == number) {
            found.put(batch, one.getPath());
          }
        }
      }
    } catch (FileNotFoundException none) {
      return found;
    }
    return found;
  }

  /** The rows of these batches for which a condition holds; an empty one always does. Fails if some of them cannot be read any more, and says which. */
  Dataset<Row> rows(Map<Long, BatchRecord> batches, StructType schema, boolean isStreaming, String condition) {
    List<String> directories = new ArrayList<>();
    StringBuilder files = new StringBuilder();
    StringBuilder blocks = new StringBuilder();
    List<Long> lost = new ArrayList<>();
    Map<String, Map<Long, BatchRecord>> topics = new TreeMap<>();
    batches.forEach((batch, one) -> {
      if (!one.topic().isEmpty()) {
        topics.computeIfAbsent(one.topic(), name -> new TreeMap<>()).put(batch, one);
      } else if (!one.blocks().isEmpty()) {
        if (areGone(one)) {
          lost.add(batch);
        }
        one.files().forEach(line -> blocks.append(one.directory()).append('/').append(line).append('\n'));
      } else {
        one.files().forEach(line -> files.append(directories.size()).append('\t').append(line).append('\n'));
        directories.add(base + "/" + one.directory());
      }
    });
    if (!lost.isEmpty()) {
      throw new ResultBatchesLost(lost, region);
    }
    List<HadoopFsRelation> relations = new ArrayList<>();
    if (!directories.isEmpty() || blocks.isEmpty() && topics.isEmpty()) {
      var parquet = new VersionFiles.Reading("parquet", STRICT);
      relations.add(VersionFiles.relation(session, String.join("\n", directories), files.toString(), schema.json(), "", parquet));
    }
    if (!blocks.isEmpty()) {
      var index = KeptBlocks.index(base, blocks.toString().stripTrailing());
      relations.add(new HadoopFsRelation(index, new StructType(), schema, Option.empty(), new BlockRows(), SparkLine.immutable(Map.of()), session));
    }
    List<Dataset<Row>> found = new ArrayList<>(relations.stream().map(one -> only(frame(one, isStreaming), condition, OF_FILE, schema)).toList());
    topics.forEach((topic, its) -> found.add(new TopicBatches(session, topic, client).rows(its, schema, isStreaming, condition)));
    return found.stream().reduce((one, other) -> one.union(other)).get();
  }

  /** The columns of a schema of the rows for which a condition holds, which are told their batch by `batch`. */
  static Dataset<Row> only(Dataset<Row> rows, String condition, String batch, StructType schema) {
    return condition.isEmpty() ? rows : StreamReplay.only(rows, condition.replace(BATCH, batch), List.of(schema.fieldNames()));
  }

  /** A stream whose rows cannot be read. */
  Dataset<Row> unreadable(RuntimeException why, StructType schema) {
    var parquet = new ParquetFileFormat();
    return frame(new HadoopFsRelation(new FailingFiles(why), new StructType(), schema, Option.empty(), parquet, SparkLine.immutable(Map.of()), session), true);
  }

  private Dataset<Row> frame(HadoopFsRelation relation, boolean isStreaming) {
    return Dataset.ofRows(session, LogicalRelation$.MODULE$.apply(relation, isStreaming));
  }

  /** Those of these batches whose rows cannot be read any more: files that are gone or have another length, or blocks. */
  List<Long> lost(long first, long last) throws IOException {
    List<Long> found = new ArrayList<>();
    for (long batch = first; batch <= last; batch++) {
      BatchRecord one = read(batch);
      if (!isThere(one)) {
        found.add(batch);
      }
    }
    return found;
  }

  private boolean isThere(BatchRecord one) throws IOException {
    if (!one.topic().isEmpty()) {
      return !new TopicBatches(session, one.topic(), client).isGone(one, base + "/" + one.directory());
    }
    return one.blocks().isEmpty() ? !areDamaged(one) : !areGone(one);
  }

  private boolean areGone(BatchRecord one) {
    if (!one.blocks().equals(session.sparkContext().applicationId())) {
      return true;
    }
    List<String> paths = one.files().stream().map(line -> new Path(base, one.directory()) + "/" + line.substring(0, line.indexOf('\t'))).toList();
    return !paths.isEmpty() && !KeptBlocks.gone(String.join("\n", paths)).isEmpty();
  }

  private boolean areDamaged(BatchRecord one) throws IOException {
    for (String line : one.files()) {
      int tab = line.lastIndexOf('\t');
      Path file = new Path(new Path(base, one.directory()), line.substring(0, tab));
      FileSystem store = file.getFileSystem(settings);
      try {
        if (store.getFileStatus(file).getLen() != Long.parseLong(line.substring(tab + 1))) {
          return true;
        }
      } catch (FileNotFoundException missing) {
        return true;
      }
    }
    return false;
  }
}
