// SPDX-License-Identifier: Apache-2.0
package rekindle.delta;

import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.delta.DeltaConcurrentModificationException;
import org.apache.spark.sql.delta.DeltaLog;
import org.apache.spark.sql.delta.DeltaOperations;
import org.apache.spark.sql.delta.OptimisticTransaction;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.actions.Action;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.delta.actions.SetTransaction;

import scala.Option;
import scala.Product;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A Delta table's log, in one call for all files. Actions come and go as the JSON that the protocol of Delta defines, which is
 * stable where constructors are not. Built against Delta's jars, which the main jar never needs.
 */
public final class DeltaTables {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String TAG = "REKINDLE_PUBLICATION";

  private DeltaTables() {}

  /** Version, protocol, metadata, and every transaction whose id begins with `prefix`, one per line. Empty without a table. */
  public static String state(SparkSession session, String path, String prefix) {
    Snapshot snapshot = snapshot(session, path);
    if (snapshot.version() < 0) {
      return "";
    }
    List<String> lines = new ArrayList<>();
    lines.add(Long.toString(snapshot.version()));
    lines.add(snapshot.protocol().json());
    lines.add(snapshot.metadata().json());
    for (SetTransaction one : CollectionConverters.asJava(snapshot.setTransactions())) {
      if (one.appId().startsWith(prefix)) {
        lines.add(one.json());
      }
    }
    return String.join("\n", lines);
  }

  /**
   * The files of one version, one per line: path, tab, bytes, tab, values of its partition as JSON, tab, statistics, tab, the
   * publication of ours that it is tagged with, tab, the number of its deletion vectors.
   */
  public static String files(SparkSession session, String path, long version) throws JsonProcessingException {
    Snapshot newest = snapshot(session, path);
    Snapshot wanted =
        newest.version() == version
            ? newest
            : DeltaLog.forTable(session, path).getSnapshotAt(version, Option.empty(), Option.empty(), false);
    List<String> lines = new ArrayList<>();
    for (AddFile file : (AddFile[]) wanted.allFiles().collect()) {
      lines.add(told(file));
    }
    return String.join("\n", lines);
  }

  static String told(AddFile file) throws JsonProcessingException {
    String tag = file.tags() == null ? "" : CollectionConverters.asJava(file.tags()).getOrDefault(TAG, "");
    var values = CollectionConverters.asJava(file.partitionValues());
    return told(file.path(), file.size(), values, file.stats(), tag, file.deletionVector() != null);
  }

  static String told(String path, long bytes, Map<String, String> partition, String stats, String tag, boolean hasDeletions)
      throws JsonProcessingException {
    String values = JSON.writeValueAsString(new TreeMap<>(partition));
    String statistics = stats == null ? "" : stats.replace('\n', ' ');
    return String.join("\t", path, Long.toString(bytes), values, statistics, tag, hasDeletions ? "1" : "0");
  }

  /**
   * One commit on top of a version that was looked at. `watched` are the ids of transactions that it depends on: whoever
   * commits one of them meanwhile makes this one fail; so does whoever commits anything at all on top of that version. `removed` are paths, `*` for all files, nothing for none; a file that
   * is not there any more is a conflict. `added` are actions. The answer is `committed`, `moved` where the version is not the
   * newest any more, or `conflict`, with a tab and what it is about.
   */
  public static String commit(
      SparkSession session, String path, long version, String watched, String removed, String added, String told, long atMs)
      throws ReflectiveOperationException {
    Snapshot newest = snapshot(session, path);
    if (newest.version() != version) {
      return "moved\t" + newest.version();
    }
    DeltaLog log = DeltaLog.forTable(session, path);
    OptimisticTransaction transaction = new PinnedTransaction(log, newest);
    watched.lines().forEach(transaction::txnVersion);
    List<Action> actions = new ArrayList<>();
    if (!removed.isEmpty()) {
      Set<String> names = new HashSet<>(removed.lines().toList());
      boolean everything = names.remove("*");
      List<AddFile> gone = new ArrayList<>();
      for (AddFile file : CollectionConverters.asJava(transaction.filterFiles())) {
        if (names.remove(file.path()) || everything) {
          gone.add(file);
          actions.add(file.removeWithTimestamp(atMs, true));
        }
      }
      if (!names.isEmpty()) {
        return "conflict\t" + names.size() + " files are gone";
      }
    }
    added.lines().forEach(line -> actions.add(Action.fromJson(line)));
    SaveMode mode = removed.isEmpty() ? SaveMode.Append : SaveMode.Overwrite;
    try {
      long made = transaction.commit(CollectionConverters.asScala(actions).toSeq(), write(mode, told));
      return "committed\t" + made;
    } catch (DeltaConcurrentModificationException | PinnedTransaction.Moved e) {
      return "conflict\t" + e.getMessage();
    }
  }

  /** As in the table's history; its number of fields differs between versions of Delta. */
  private static DeltaOperations.Operation write(SaveMode mode, String told) throws ReflectiveOperationException {
    for (Constructor<?> made : DeltaOperations.Write.class.getConstructors()) {
      Object[] fields = new Object[made.getParameterCount()];
      Arrays.fill(fields, Option.empty());
      fields[0] = mode;
      Product bare = (Product) made.newInstance(fields);
      for (int i = 0; i < fields.length; i++) {
        if (bare.productElementName(i).equals("userMetadata")) {
          fields[i] = Option.apply(told);
        }
      }
      return (DeltaOperations.Operation) made.newInstance(fields);
    }
    throw new NoSuchMethodException(DeltaOperations.Write.class.getName());
  }

  private static Snapshot snapshot(SparkSession session, String path) {
    return DeltaLog.forTableWithSnapshot(session, new Path(path))._2();
  }
}
