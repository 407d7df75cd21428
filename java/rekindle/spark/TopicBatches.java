// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;

import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.Function2;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.CollectionAccumulator;
import org.apache.spark.util.LongAccumulator;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;

/**
 * Batches of a result between regions whose rows are records of a topic. Rules:
 * 1. Records count by the entry of their batch: it says between which offsets they are, by which query they were sent, and by which attempt at each partition.
 *    What a query that died sent, or a task that was tried again, is left out by these numbers alone: readers keep no state for it.
 * 2. The offsets are asked of the topic before the first record is sent and after the last one.
 * 3. Records that are older than the topic keeps make their batch a lost one. A topic that does not answer says nothing.
 * 4. The digest of a batch is that of its rows as readers get them. Where one task did not tell of all its rows there is none.
 */
public final class TopicBatches {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final TypeReference<TreeMap<String, TreeMap<String, Long>>> POSITIONS = new TypeReference<>() {};
  private static final String KAFKA = "kafka";
  private static final String ATTEMPT = "__rekindle_attempt";
  private static final String BATCH = "__rekindle_batch";
  private static final String HEADERS = "headers";
  private static final String OFFSETS = "startingOffsets";
  private final SparkSession session;
  private final String topic;
  private final Map<String, String> client = new HashMap<>();

  /** `options` may have others, too. */
  TopicBatches(SparkSession session, String topic, Map<String, String> options) {
    this.session = session;
    this.topic = topic;
    options.forEach(
        (name, value) -> {
          if (name.startsWith(KAFKA + ".")) {
            client.put(name, value);
          }
        });
  }

  /** Send the rows of a batch. The words of its entry that say which records they are; the positions are noted below a directory that is new. */
  Map<String, String> send(QueryExecution execution, Map<String, Object> of, String directory) {
    String from = asked("latest", directory);
    CollectionAccumulator<String> attempts = new CollectionAccumulator<>();
    CollectionAccumulator<String> digests = new CollectionAccumulator<>();
    LongAccumulator bytes = new LongAccumulator();
    List.of(attempts, digests, bytes).forEach(session.sparkContext()::register);
    // The plan of the batch is executed as it is; another one would not know its state.
    QueryExecution sent = asRead(session.internalCreateDataFrame(execution.toRdd(), execution.analyzed().schema(), false)).queryExecution();
    StructType schema = sent.analyzed().schema();
    var told = sent.toRdd().toJavaRDD().mapPartitionsWithIndex(new Told(schema, attempts, digests, bytes), true).rdd();
    Dataset<Row> records = session.internalCreateDataFrame(told, schema.add(ATTEMPT, DataTypes.LongType), false);
    Map<String, Column> headers = new TreeMap<>();
    of.forEach((name, value) -> headers.put(name, functions.lit(value)));
    headers.put("attempt", functions.col(ATTEMPT));
    StreamKafka.send(records, StreamKafka.hasExchange(execution), headers, List.of(ATTEMPT), client, topic);
    List<String> counted = attempts.value().stream().sorted().toList();
    Map<String, String> words = new HashMap<>();
    words.put(BatchRecord.TOPIC, topic);
    words.put(BatchRecord.FROM, from);
    words.put(BatchRecord.TO, asked("latest", directory));
    words.put(BatchRecord.TASKS, String.join(" ", counted));
    words.put(BatchRecord.BYTES, Long.toString(bytes.sum()));
    String rows = digests.value().size() == counted.size() ? RowDigest.sum(digests.value(), schema) : "";
    if (!rows.isEmpty()) {
      words.put(BatchRecord.ROWS, rows);
    }
    return words;
  }

  /** Rows as readers of the topic get them: without headers of ours that they bring along, and with none in place of null. */
  public static Dataset<Row> asRead(Dataset<Row> rows) {
    return List.of(rows.columns()).contains(HEADERS) ? rows.withColumn(HEADERS, StreamKafka.theirs()) : rows;
  }

  /** The records that count of these batches and for which a condition holds, with the columns of the step that sent them. */
  Dataset<Row> rows(Map<Long, BatchRecord> batches, StructType schema, boolean isStreaming, String condition) {
    TreeMap<String, TreeMap<String, Long>> from = new TreeMap<>();
    TreeMap<String, TreeMap<String, Long>> to = new TreeMap<>();
    List<Object> attempts = new ArrayList<>();
    batches.forEach(
        (batch, one) -> {
          merge(from, positions(one.words().get(BatchRecord.FROM)), true);
          merge(to, positions(one.words().get(BatchRecord.TO)), false);
          String query = batch + "/" + one.words().get(BatchRecord.EPOCH) + "/";
          String tasks = one.words().get(BatchRecord.TASKS);
          List.of(tasks.split(" ")).forEach(task -> attempts.add(query + task));
        });
    to.forEach((name, ends) -> ends.keySet().forEach(partition -> from.computeIfAbsent(name, key -> new TreeMap<>()).putIfAbsent(partition, 0L)));
    Dataset<Row> read =
        session
            .read()
            .format(KAFKA)
            .options(client)
            .option("subscribe", topic)
            .option("includeHeaders", "true")
            .option(OFFSETS, text(from))
            .option("endingOffsets", text(to))
            .load();
    Dataset<Row> records = isStreaming ? streaming(read) : read;
    BatchRecord any = batches.values().iterator().next();
    Column ours =
        functions.concat_ws("/", header("batch"), header("query"), header("partition"), header("attempt")).isin(attempts.toArray());
    Column generation = header("generation").equalTo(any.directory().split("/")[2]).and(header("region").equalTo(any.directory().split("/")[1]));
    List<Column> columns = new ArrayList<>();
    for (StructField one : schema.fields()) {
      Column theirs = one.name().equals(HEADERS) ? StreamKafka.theirs() : functions.col(one.name());
      columns.add(theirs.cast(one.dataType()).as(one.name()));
    }
    Dataset<Row> counted = records.where(generation.and(ours));
    if (condition.isEmpty()) {
      return counted.select(columns.toArray(Column[]::new));
    }
    columns.add(header("batch").as(BATCH));
    return ResultLog.only(counted.select(columns.toArray(Column[]::new)), condition, "`" + BATCH + "`", schema);
  }

  /** Whether the topic says that it no longer has the records of a batch. */
  boolean isGone(BatchRecord one, String directory) {
    TreeMap<String, TreeMap<String, Long>> oldest;
    try {
      oldest = positions(asked("earliest", directory));
    } catch (RuntimeException unknown) {
      return false;
    }
    var from = positions(one.words().get(BatchRecord.FROM)).getOrDefault(topic, new TreeMap<>());
    var to = positions(one.words().get(BatchRecord.TO)).getOrDefault(topic, new TreeMap<>());
    return to.entrySet().stream()
        .anyMatch(
            end -> {
              long start = from.getOrDefault(end.getKey(), 0L);
              Long first = oldest.getOrDefault(topic, new TreeMap<>()).get(end.getKey());
              return end.getValue() > start && (first == null || first > start);
            });
  }

  private String asked(String where, String directory) {
    var reader = session.readStream().format(KAFKA).options(client).option("subscribe", topic).option(OFFSETS, where);
    return StreamStarts.asked(session, reader.load().queryExecution(), 0, Map.of(OFFSETS, where), directory + "/asked-" + UUID.randomUUID());
  }

  /** The same records as a part of a stream: the relation that Spark's connector made is read as it is. */
  private Dataset<Row> streaming(Dataset<Row> read) {
    LogicalPlan plan = read.queryExecution().analyzed();
    if (plan instanceof LogicalRelation one) {
      return Dataset.ofRows(session, LogicalRelation$.MODULE$.apply(one.relation(), true));
    }
    throw new IllegalStateException("this Spark reads a topic in another way: leave kafka in spark.sql.sources.useV1SourceList");
  }

  private static Column header(String name) {
    return functions.expr("cast(element_at(filter(headers, one -> one.key = '" + StreamKafka.OURS + name + "'), -1).value as string)");
  }

  private static void merge(TreeMap<String, TreeMap<String, Long>> into, Map<String, TreeMap<String, Long>> given, boolean isLeast) {
    given.forEach(
        (name, partitions) ->
            partitions.forEach((partition, at) -> into.computeIfAbsent(name, key -> new TreeMap<>()).merge(partition, at, isLeast ? Math::min : Math::max)));
  }

  private static TreeMap<String, TreeMap<String, Long>> positions(String text) {
    try {
      return JSON.readValue(text, POSITIONS);
    } catch (JsonProcessingException damaged) {
      throw new IllegalStateException("these are no offsets of a topic: " + text, damaged);
    }
  }

  private static String text(Map<String, TreeMap<String, Long>> positions) {
    try {
      return JSON.writeValueAsString(positions);
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  /**
   * Adds to each row by which attempt it was made, and tells of each partition that of the attempt which counted, and then, when it has given all its rows, their
   * digest and the bytes of their keys and values: what a task that fails tells is dropped.
   */
  private static final class Told implements Function2<Integer, Iterator<InternalRow>, Iterator<InternalRow>>, Serializable {
    private static final long serialVersionUID = 1L;
    private final StructType schema;
    private final CollectionAccumulator<String> attempts;
    private final CollectionAccumulator<String> digests;
    private final LongAccumulator bytes;

    Told(StructType schema, CollectionAccumulator<String> attempts, CollectionAccumulator<String> digests, LongAccumulator bytes) {
      this.schema = schema;
      this.attempts = attempts;
      this.digests = digests;
      this.bytes = bytes;
    }

    @Override
    public Iterator<InternalRow> call(Integer partition, Iterator<InternalRow> rows) {
      long attempt = TaskContext.get().taskAttemptId();
      attempts.add(TaskContext.getPartitionId() + "/" + attempt);
      InternalRow more = new GenericInternalRow(new Object[] {attempt});
      RowDigest digest = Kinds.isKnown(schema) ? new RowDigest(schema) : null;
      return new Iterator<>() {
        private final JoinedRow joined = new JoinedRow();
        private long size;
        private boolean isOver;

        @Override
        public boolean hasNext() {
          if (rows.hasNext()) {
            return true;
          }
          if (!isOver) {
            isOver = true;
            digests.add(digest == null ? "" : digest.packed());
            bytes.add(size);
          }
          return false;
        }

        @Override
        public InternalRow next() {
          InternalRow row = rows.next();
          if (digest != null) {
            digest.add(row);
          }
          for (int i = 0; i < schema.size(); i++) {
            size += bytes(row, i);
          }
          return joined.apply(row, more);
        }
      };
    }

    private long bytes(InternalRow row, int at) {
      if (row.isNullAt(at) || schema.apply(at).name().equals(HEADERS)) {
        return 0;
      }
      return schema.apply(at).dataType() instanceof BinaryType ? row.getBinary(at).length : row.getUTF8String(at).numBytes();
    }
  }
}
