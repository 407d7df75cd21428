// SPDX-License-Identifier: Apache-2.0
package rekindle.delta;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.delta.DeltaLog;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.actions.SetTransaction;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.sources.StreamSinkProvider;
import org.apache.spark.sql.streaming.OutputMode;

import rekindle.spark.DroppedRows;
import rekindle.spark.StreamFence;

import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The batches of a streaming region in a Delta table, exactly once: Delta's own writer makes one commit of each. Rules:
 * 1. The commit of a batch carries a transaction: an id that no other checkpoint has, with the number of the batch. Delta adds nothing for a number that it has,
 *    and of two commits with one id at once one fails. So a driver that was frozen in a batch adds it only if its successor has not.
 * 2. The fence of the region and the owner of the table are looked at before the rows are computed: a driver that lost one of them ends with a sentence.
 * 3. A batch that the table has is computed all the same, and its rows dropped: its state must go on, and Spark refuses a stateful batch that is skipped.
 * 4. A folder that is no table yet becomes one by the commit of its first batch.
 */
public final class DeltaBatches implements StreamSinkProvider {
  @Override
  public Sink createSink(
      SQLContext context, scala.collection.immutable.Map<String, String> options, Seq<String> partitionColumns, OutputMode mode) {
    return new Batches(
        options.apply("path"),
        options.apply("transaction"),
        StreamFence.ofTarget(new Path(options.apply("entries")), Long.parseLong(options.apply("owner"))));
  }

  /** The last batch of which a table has the transaction, -1 for none. */
  private static long last(SparkSession session, String path, String transaction) {
    Snapshot snapshot = DeltaLog.forTableWithSnapshot(session, new Path(path))._2();
    long last = -1;
    for (SetTransaction one : CollectionConverters.asJava(snapshot.setTransactions())) {
      last = one.appId().equals(transaction) ? one.version() : last;
    }
    return last;
  }

  private record Batches(String path, String transaction, StreamFence owner) implements Sink {
    @Override
    public void addBatch(long batch, Dataset<Row> rows) {
      SparkSession session = (SparkSession) rows.sparkSession();
      Configuration settings = session.sessionState().newHadoopConf();
      StreamFence.of(settings).look(settings);
      owner.look(settings);
      QueryExecution execution = ((org.apache.spark.sql.classic.Dataset<Row>) rows).queryExecution();
      if (last(session, path, transaction) >= batch) {
        DroppedRows.compute(execution);
        return;
      }
      // The plan of the batch is executed as it is; another one would not know its state.
      session
          .internalCreateDataFrame(execution.toRdd(), rows.schema(), false)
          .write()
          .format("delta")
          .mode("append")
          .option("txnAppId", transaction)
          .option("txnVersion", batch)
          .save(path);
    }
  }
}
