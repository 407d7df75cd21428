// SPDX-License-Identifier: Apache-2.0
package rekindle.iceberg;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.iceberg.BaseTable;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.spark.source.SparkTable;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.analysis.AsOfVersion;
import org.apache.spark.sql.catalyst.analysis.TimeTravelSpec;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;

import rekindle.spark.PinnedSource;
import rekindle.spark.PlanLeaves;

import scala.Option;

/**
 * Iceberg tables that a plan reads. Spark looks at one that is read without a version again for every query: two of one run would read two snapshots. In a pinned
 * plan each is read at the snapshot that is named for it, with the columns that the run began with.
 */
public final class IcebergSources {
  /** The snapshot of a table that has none yet. */
  private static final long EMPTY = -1;

  private IcebergSources() {}

  /** Tables that the plan reads at no version of the user's: name, id with the number of its schema, snapshot as it is now, its age in milliseconds; by tabs. */
  public static String newest(QueryExecution execution) {
    Set<String> lines = new HashSet<>();
    for (DataSourceV2Relation leaf : leaves(execution)) {
      TableMetadata now = operations(leaf).current();
      Snapshot snapshot = now.currentSnapshot();
      String number = Long.toString(snapshot == null ? EMPTY : snapshot.snapshotId());
      String at = Long.toString(snapshot == null ? now.lastUpdatedMillis() : snapshot.timestampMillis());
      lines.add(String.join("\t", name(leaf), id(now), number, at));
    }
    return String.join("\n", lines);
  }

  /** The plan with each of its tables at a snapshot: name, tab, snapshot, tab, id. Empty where a table has other columns by now. */
  public static Option<Dataset<Row>> at(SparkSession session, QueryExecution execution, String versions) {
    Map<String, String[]> wanted = new HashMap<>();
    versions.lines().map(line -> line.split("\t")).forEach(parts -> wanted.put(parts[0], parts));
    Map<LogicalPlan, LogicalPlan> instead = new IdentityHashMap<>();
    for (DataSourceV2Relation leaf : leaves(execution)) {
      String[] parts = wanted.get(name(leaf));
      PinnedOperations operations = operations(leaf);
      TableMetadata then = at(operations.current(), Long.parseLong(parts[1]));
      SparkTable made = new PinnedTable(new BaseTable(new PinnedOperations(operations, then), name(leaf)));
      if (!id(then).equals(parts[2]) || !Arrays.equals(made.columns(), leaf.table().columns())) {
        return Option.empty();
      }
      // With a version Spark does not load the table again when the plan is executed.
      Option<TimeTravelSpec> fixed = Option.apply(new AsOfVersion(parts[1]));
      instead.put(leaf, leaf.copy(made, leaf.output(), leaf.catalog(), leaf.identifier(), leaf.options(), fixed));
    }
    return Option.apply(PlanLeaves.replaced(session, execution, instead));
  }

  /** Why a snapshot of a table cannot be read any more; empty if it can. */
  public static String gone(QueryExecution execution, String name, String id, long snapshot) {
    for (DataSourceV2Relation leaf : leaves(execution)) {
      TableMetadata now = operations(leaf).current();
      if (name(leaf).equals(name) && !id.startsWith(now.uuid() + "/")) {
        return "another table is in its place";
      }
      if (name(leaf).equals(name) && snapshot != EMPTY && now.snapshot(snapshot) == null) {
        return "it was expired (expire_snapshots), or never was in this table";
      }
    }
    return "";
  }

  /** A table whose metadata stays as it is. */
  private static final class PinnedTable extends SparkTable implements PinnedSource {
    PinnedTable(BaseTable table) {
      super(table);
    }
  }

  /** The metadata with an older snapshot for the current one. It is never written. */
  private static TableMetadata at(TableMetadata now, long snapshot) {
    TableMetadata.Builder then = TableMetadata.buildFrom(now);
    if (snapshot == EMPTY) {
      then.removeRef(SnapshotRef.MAIN_BRANCH);
    } else {
      then.setBranchSnapshot(snapshot, SnapshotRef.MAIN_BRANCH);
    }
    return then.discardChanges().withMetadataLocation(now.metadataFileLocation()).build();
  }

  private static String id(TableMetadata table) {
    return table.uuid() + "/" + table.currentSchemaId();
  }

  private static String name(DataSourceV2Relation leaf) {
    return ((SparkTable) leaf.table()).table().name();
  }

  /** The operations of a table at its newest metadata. */
  private static PinnedOperations operations(DataSourceV2Relation leaf) {
    var operations = ((BaseTable) ((SparkTable) leaf.table()).table()).operations();
    return new PinnedOperations(operations, operations.refresh());
  }

  private static List<DataSourceV2Relation> leaves(QueryExecution execution) {
    List<DataSourceV2Relation> found = new ArrayList<>();
    for (LogicalPlan node : PlanLeaves.nodes(execution)) {
      if (node instanceof DataSourceV2Relation leaf
          && leaf.table() instanceof SparkTable one
          && one.table() instanceof BaseTable
          && one.branch() == null
          && leaf.timeTravelSpec().isEmpty()
          && (leaf.identifier().isEmpty() || one.table().name().endsWith(leaf.identifier().get().name()))) { // Else the name goes on: with a snapshot, a tag.
        found.add(leaf);
      }
    }
    return found;
  }
}
