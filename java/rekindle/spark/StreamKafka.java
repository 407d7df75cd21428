// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.datasources.DataSource$;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.sources.StreamSinkProvider;
import org.apache.spark.sql.streaming.OutputMode;

import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The records of a streaming region in a Kafka topic, at least once: Spark's own writer sends them, and its connector is the user's. Rules:
 * 1. The fence is looked at before a batch is sent: a driver that lost the region sends at most the batch that it is in.
 * 2. Each record has headers: region, generation, batch, the number of the query that sent it, its partition and row. What two queries sent of one batch can be
 *    told by them.
 * 3. Rows are sent in the order in which they come. Where they went through an exchange that order is none: there they are sorted, so that a task that is tried
 *    again gives its rows the same numbers.
 * 4. Headers of ours that a record brings along, because it was read from another such topic, are replaced.
 */
public final class StreamKafka implements StreamSinkProvider {
  private static final String KAFKA = "kafka";
  private static final String HEADERS = "headers";
  private static final String HEADERS_TYPE = "array<struct<key:string,value:binary>>";
  static final String OURS = "rekindle.";
  private static final long ROWS = (1L << 33) - 1;
  private static final Pattern EXCHANGE = Pattern.compile("\\bExchange\\b");

  /** Whether Spark knows a source or sink of this name. */
  public static boolean isThere(SparkSession session, String name) {
    try {
      return DataSource$.MODULE$.lookupDataSource(name, session.sessionState().conf()) != null;
    } catch (Exception unknown) {
      return false;
    }
  }

  @Override
  public Sink createSink(
      SQLContext context, scala.collection.immutable.Map<String, String> options, Seq<String> partitionColumns, OutputMode mode) {
    return new Batches(CollectionConverters.asJava(options));
  }

  private static final class Batches implements Sink {
    private final String region;
    private final String generation;
    private final String topic;
    private final Map<String, String> client = new HashMap<>();

    Batches(Map<String, String> options) {
      region = options.get("region");
      generation = options.get("generation");
      topic = options.get("topic");
      options.forEach(
          (name, value) -> {
            if (name.startsWith(KAFKA + ".")) {
              client.put(name, value);
            }
          });
    }

    @Override
    public void addBatch(long batch, Dataset<Row> rows) {
      SparkSession session = (SparkSession) rows.sparkSession();
      Configuration settings = session.sessionState().newHadoopConf();
      StreamFence fence = StreamFence.of(settings);
      fence.look(settings);
      QueryExecution execution = ((org.apache.spark.sql.classic.Dataset<Row>) rows).queryExecution();
      // The plan of the batch is executed as it is; another one would not know its state.
      Dataset<Row> computed = session.internalCreateDataFrame(execution.toRdd(), rows.schema(), false);
      Map<String, Column> own = new LinkedHashMap<>();
      own.put("region", functions.lit(region));
      own.put("generation", functions.lit(generation));
      own.put("batch", functions.lit(batch));
      own.put("query", functions.lit(fence.epoch()));
      send(computed, hasExchange(execution), own, List.of(), client, topic);
    }
  }

  static boolean hasExchange(QueryExecution execution) {
    return EXCHANGE.matcher(execution.executedPlan().toString()).find();
  }

  /** The headers of a record that are not ours. */
  static Column theirs() {
    return functions.expr("coalesce(filter(headers, one -> not startswith(one.key, '" + OURS + "')), array())").cast(HEADERS_TYPE);
  }

  /** Send rows with these headers of ours, and without some columns. */
  static void send(Dataset<Row> computed, boolean isSorted, Map<String, Column> headers, List<String> without, Map<String, String> client, String topic) {
    List<String> columns = Arrays.stream(computed.columns()).filter(one -> !without.contains(one)).sorted().toList();
    Dataset<Row> rows = isSorted ? computed.sortWithinPartitions(columns.stream().map(functions::col).toArray(Column[]::new)) : computed;
    Column theirs = columns.contains(HEADERS) ? theirs() : functions.array().cast(HEADERS_TYPE);
    List<Column> own = new ArrayList<>();
    headers.forEach((name, value) -> own.add(header(name, value)));
    own.add(header("partition", functions.spark_partition_id()));
    own.add(header("row", functions.monotonically_increasing_id().bitwiseAND(ROWS)));
    Column all = functions.concat(theirs, functions.array(own.toArray(Column[]::new)).cast(HEADERS_TYPE));
    Dataset<Row> records = rows.withColumn(HEADERS, all).drop(without.toArray(String[]::new));
    records.write().format(KAFKA).options(client).option("topic", topic).mode("append").save();
  }

  private static Column header(String name, Column value) {
    return functions.struct(functions.lit(OURS + name).as("key"), value.cast("string").cast("binary").as("value"));
  }
}
