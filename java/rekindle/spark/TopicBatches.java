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
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.CollectionAccumulator;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;

/**
 * Batches of a result between regions whose rows are records of a topic. Rules:
 * 1. Records count by the entry of their batch: it says between which offsets they are, by which query they were sent, and by which attempt at each partition.
 *    What a query that died sent, or a task that was tried again, is left out by these numbers alone: readers keep no state for it.
 * 2. The offsets are asked of the topic before the first record is sent and after the last one.
 * 3. Records that are older than the topic keeps make their batch a lost one. A topic that does not answer says nothing.
 */
final class TopicBatches {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final TypeReference<TreeMap<String, TreeMap<String, Long>>> POSITIONS = new TypeReference<>() {};
  private static final String KAFKA = "kafka";
  private static final String ATTEMPT = "__rekindle_attempt";
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
    session.sparkContext().register(attempts);
    StructType schema = execution.analyzed().schema();
    var told = execution.toRdd().toJavaRDD().mapPartitionsWithIndex(new Told(attempts), true).rdd();
    Dataset<Row> rows = session.internalCreateDataFrame(told, schema.add(ATTEMPT, DataTypes.LongType), false);
    Map<String, Column> headers = new TreeMap<>();
    of.forEach((name, value) -> headers.put(name, functions.lit(value)));
    headers.put("attempt", functions.col(ATTEMPT));
    StreamKafka.send(rows, StreamKafka.hasExchange(execution), headers, List.of(ATTEMPT), client, topic);
    List<String> counted = attempts.value().stream().sorted().toList();
    return Map.of(BatchRecord.TOPIC, topic, BatchRecord.FROM, from, BatchRecord.TO, asked("latest", directory), BatchRecord.TASKS, String.join(" ", counted));
  }

  /** The records that count of these batches, with the columns of the step that sent them. */
  Dataset<Row> rows(Map<Long, BatchRecord> batches, StructType schema, boolean isStreaming) {
    TreeMap<String, TreeMap<String, Long>> from = new TreeMap<>();
    TreeMap<String, TreeMap<String, Long>> to = new TreeMap<>();
    List<Object> counted = new ArrayList<>();
    batches.forEach(
        (batch, one) -> {
          merge(from, positions(one.words().get(BatchRecord.FROM)), true);
          merge(to, positions(one.words().get(BatchRecord.TO)), false);
          String query = batch + "/" + one.words().get(BatchRecord.EPOCH) + "/";
          String tasks = one.words().get(BatchRecord.TASKS);
          List.of(tasks.split(" ")).forEach(task -> counted.add(query + task));
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
        functions.concat_ws("/", header("batch"), header("query"), header("partition"), header("attempt")).isin(counted.toArray());
    Column generation = header("generation").equalTo(any.directory().split("/")[2]).and(header("region").equalTo(any.directory().split("/")[1]));
    List<Column> columns = new ArrayList<>();
    for (StructField one : schema.fields()) {
      Column theirs = one.name().equals(HEADERS) ? StreamKafka.theirs() : functions.col(one.name());
      columns.add(theirs.cast(one.dataType()).as(one.name()));
    }
    return records.where(generation.and(ours)).select(columns.toArray(Column[]::new));
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

  /** Adds to each row by which attempt it was made, and tells of each partition that of the attempt which counted: what a task that fails tells is dropped. */
  private static final class Told implements Function2<Integer, Iterator<InternalRow>, Iterator<InternalRow>>, Serializable {
    private static final long serialVersionUID = 1L;
    private final CollectionAccumulator<String> attempts;

    Told(CollectionAccumulator<String> attempts) {
      this.attempts = attempts;
    }

    @Override
    public Iterator<InternalRow> call(Integer partition, Iterator<InternalRow> rows) {
      long attempt = TaskContext.get().taskAttemptId();
      attempts.add(TaskContext.getPartitionId() + "/" + attempt);
      InternalRow more = new GenericInternalRow(new Object[] {attempt});
      return new Iterator<>() {
        private final JoinedRow joined = new JoinedRow();

        @Override
        public boolean hasNext() {
          return rows.hasNext();
        }

        @Override
        public InternalRow next() {
          return joined.apply(rows.next(), more);
        }
      };
    }
  }
}
