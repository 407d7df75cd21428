// SPDX-License-Identifier: Apache-2.0
package rekindle.iceberg;

import java.util.ArrayList;
import java.util.List;

import com.fasterxml.jackson.core.JsonProcessingException;

import org.apache.iceberg.BaseTable;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataOperations;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotChanges;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.types.Types;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.classic.SparkSession;

/** What snapshots of an Iceberg table did to its rows. Those that only moved rows to other files (`replace`) did nothing to them. */
public final class IcebergChanges {
  private static final String PUBLICATION = "rekindle.publication";
  /** The snapshot of a table that has none yet. */
  private static final long NONE = -1;

  private IcebergChanges() {}

  /**
   * The files whose rows came or went with the snapshots after one (-1 for none), one per line: the publication of ours that the snapshot names, tab, the snapshot in
   * words, tab, and the file as `IcebergTables.files` tells it, with statistics of these columns. A snapshot that deletes rows by files beside those of the rows has a
   * line of one file without statistics: which rows these are is not known. `gone` where the newest snapshot does not follow from that one.
   */
  public static String since(SparkSession session, String name, long snapshot, String columns)
      throws ParseException, NoSuchTableException, JsonProcessingException {
    TableOperations operations = IcebergTables.operations(session, name);
    TableMetadata now = operations.refresh();
    List<Types.NestedField> asked = IcebergTables.fields(now.schema(), columns);
    Table table = new BaseTable(new PinnedOperations(operations, now), name);
    List<String> lines = new ArrayList<>();
    long next = now.currentSnapshot() == null ? NONE : now.currentSnapshot().snapshotId();
    while (next != snapshot) {
      Snapshot one = now.snapshot(next);
      if (one == null) {
        return "gone";
      }
      if (!DataOperations.REPLACE.equals(one.operation())) {
        lines.addAll(changed(table, one, now, asked));
      }
      next = one.parentId() == null ? NONE : one.parentId();
    }
    return String.join("\n", lines);
  }

  private static List<String> changed(Table table, Snapshot one, TableMetadata now, List<Types.NestedField> asked)
      throws JsonProcessingException {
    String begin =
        one.summary().getOrDefault(PUBLICATION, "") + "\tsnapshot " + one.snapshotId() + ", " + one.operation() + "\t";
    List<String> lines = new ArrayList<>();
    SnapshotChanges changes = SnapshotChanges.builderFor(table).snapshot(one).build();
    for (Iterable<DataFile> files : List.of(changes.addedDataFiles(), changes.removedDataFiles())) {
      for (DataFile file : files) {
        lines.add(begin + IcebergTables.told(file, now, asked, 0));
      }
    }
    if (changes.addedDeleteFiles().iterator().hasNext() || changes.removedDeleteFiles().iterator().hasNext()) {
      lines.add(begin + "\t0\t{}\t\t\t1");
    }
    return lines;
  }
}
