// SPDX-License-Identifier: Apache-2.0
package rekindle.iceberg;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.spark.Spark3Util;
import org.apache.iceberg.spark.source.SparkTable;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.sources.StreamSinkProvider;
import org.apache.spark.sql.streaming.OutputMode;

import rekindle.spark.DroppedRows;
import rekindle.spark.StreamFence;

import scala.Option;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/**
 * The batches of a streaming region in an Iceberg table, exactly once: Iceberg's own writer makes one commit of each. Rules:
 * 1. The commit of a batch sets the number of the batch as a property that no other checkpoint has, and is not made where the table has it (BatchOperations). So a driver
 *    that was frozen in a batch adds it only if its successor has not. Iceberg's own streaming sink looks for the number once, before it commits.
 * 2. The fence of the region and the owner of the table are looked at before the rows are computed: a driver that lost one of them ends with a sentence.
 * 3. A batch that the table has is computed all the same, and its rows dropped: its state must go on, and Spark refuses a stateful batch that is skipped.
 * 4. A commit of somebody else that comes first costs a swap of the metadata, and no row is computed again.
 */
public final class IcebergBatches implements StreamSinkProvider {
  private static final String NOTED = "snapshot-property.rekindle.batch";

  @Override
  public Sink createSink(SQLContext context, Map<String, String> options, Seq<String> partitionColumns, OutputMode mode) {
    return new Batches(
        options.apply("table"),
        options.apply("property"),
        StreamFence.ofTarget(new Path(options.apply("entries")), Long.parseLong(options.apply("owner"))));
  }

  private record Batches(String table, String property, StreamFence owner) implements Sink {
    @Override
    public void addBatch(long batch, Dataset<Row> rows) {
      SparkSession session = (SparkSession) rows.sparkSession();
      Configuration settings = session.sessionState().newHadoopConf();
      StreamFence.of(settings).look(settings);
      owner.look(settings);
      QueryExecution execution = ((org.apache.spark.sql.classic.Dataset<Row>) rows).queryExecution();
      Spark3Util.CatalogAndIdentifier found = found(session);
      TableOperations operations = operations(session);
      if (has(operations, batch)) {
        DroppedRows.compute(execution);
        return;
      }
      BaseTable target = new BaseTable(new BatchOperations(operations, property, batch), table);
      // The catalog has the functions by which the table is partitioned.
      DataSourceV2Relation relation = DataSourceV2Relation.create(new SparkTable(target), Option.apply(found.catalog()), Option.apply(found.identifier()));
      // The plan of the batch is executed as it is; another one would not know its state.
      var frame = session.internalCreateDataFrame(execution.toRdd(), rows.schema(), false);
      Map<String, String> noted = new Map.Map1<>(NOTED, property + " " + batch);
      try {
        org.apache.spark.sql.classic.Dataset.ofRows(session, AppendData.byName(relation, frame.logicalPlan(), noted));
      } catch (Exception e) { // Scala throws what Java would have to declare.
        if (!has(operations, batch)) {
          throw e;
        }
      }
    }

    /** Whether the table has a batch now. */
    private boolean has(TableOperations operations, long batch) {
      return BatchOperations.last(operations.refresh(), property) >= batch;
    }

    private Spark3Util.CatalogAndIdentifier found(SparkSession session) {
      try {
        return Spark3Util.catalogAndIdentifier(session, table);
      } catch (ParseException e) {
        throw new IllegalStateException(table + " was a name when the stream began", e);
      }
    }

    private TableOperations operations(SparkSession session) {
      try {
        return IcebergTables.operations(session, table);
      } catch (ParseException | NoSuchTableException e) {
        throw new IllegalStateException("the table " + table + " is gone: " + e.getMessage(), e);
      }
    }
  }
}
