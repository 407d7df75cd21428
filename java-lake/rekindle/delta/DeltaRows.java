// SPDX-License-Identifier: Apache-2.0
package rekindle.delta;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.delta.DeltaLog;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.delta.actions.FileAction;

import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Rows of a Delta table read file by file and written by Delta's own writer, without a commit: DeltaTables makes one of all. Every
 * call is about one version, and answers with null where that is not the newest any more.
 */
public final class DeltaRows {
  private DeltaRows() {}

  /** The rows of some files, by their paths in the log, or of all (`*`). Rows that a deletion vector has deleted are not among them. */
  public static Dataset<Row> read(SparkSession session, String path, long version, String files) {
    Snapshot snapshot = at(session, path, version);
    if (snapshot == null) {
      return null;
    }
    boolean isAll = files.equals("*");
    Set<String> names = new HashSet<>(isAll ? List.of() : files.lines().toList());
    List<AddFile> chosen = new ArrayList<>();
    List<AddFile> cut = new ArrayList<>();
    for (AddFile file : (AddFile[]) snapshot.allFiles().collect()) {
      if (isAll || names.remove(file.path())) {
        chosen.add(file);
        if (file.deletionVector() != null) {
          cut.add(file);
        }
      }
    }
    if (!names.isEmpty()) {
      throw new IllegalStateException(names.size() + " files are not in version " + version + " of " + path);
    }
    check(session, path, snapshot, cut);
    return frame(session, path, snapshot, chosen);
  }

  /** The files, by their paths in the log, that Spark calls by these names (`input_file_name`). Of two that may be meant, both. */
  public static String named(SparkSession session, String path, long version, String names) {
    Snapshot snapshot = at(session, path, version);
    if (snapshot == null) {
      return null;
    }
    DeltaLog log = DeltaLog.forTable(session, path);
    Map<String, Set<String>> paths = new HashMap<>();
    for (AddFile file : (AddFile[]) snapshot.allFiles().collect()) {
      Path place = file.absolutePath(log);
      for (String name : List.of(place.toString(), place.toUri().toString(), bare(place.toUri().toString()), bare(place.toString()))) {
        paths.computeIfAbsent(name, one -> new HashSet<>()).add(file.path());
      }
    }
    Set<String> found = new TreeSet<>();
    for (String name : names.lines().toList()) {
      Set<String> meant = paths.getOrDefault(name, paths.get(bare(name)));
      if (meant == null) {
        throw new IllegalStateException(name + " is in no file of version " + version + " of " + path);
      }
      found.addAll(meant);
    }
    return String.join("\n", found);
  }

  /** Write rows for the table as it is at a version. The answer are the actions that add their files, one per line. */
  public static String write(SparkSession session, String path, long version, Dataset<Row> rows) {
    Snapshot snapshot = at(session, path, version);
    if (snapshot == null) {
      return null;
    }
    List<String> lines = new ArrayList<>();
    for (FileAction made : CollectionConverters.asJava(new PinnedTransaction(DeltaLog.forTable(session, path), snapshot).writeFiles(rows))) {
      lines.add(made.json());
    }
    return String.join("\n", lines);
  }

  /** Deletion vectors are obeyed by a rule that a session without Delta's extension does not have. */
  private static void check(SparkSession session, String path, Snapshot snapshot, List<AddFile> cut) {
    long expected = 0;
    for (AddFile file : cut) {
      Option<Object> rows = file.numLogicalRecords();
      if (rows.isEmpty()) {
        throw new IllegalStateException(file.path() + " has a deletion vector, and no statistics to check it by");
      }
      expected += (long) rows.get();
    }
    long found = cut.isEmpty() ? 0 : frame(session, path, snapshot, cut).count();
    if (found != expected) {
      throw new IllegalStateException(
          "this session reads " + found + " rows where the table has " + expected + ": it does not obey deletion vectors (spark.sql.extensions)");
    }
  }

  private static Dataset<Row> frame(SparkSession session, String path, Snapshot snapshot, List<AddFile> files) {
    return DeltaLog.forTable(session, path).createDataFrame(snapshot, CollectionConverters.asScala(files).toSeq(), false, Option.empty());
  }

  private static Snapshot at(SparkSession session, String path, long version) {
    Snapshot newest = DeltaLog.forTableWithSnapshot(session, new Path(path))._2();
    return newest.version() == version ? newest : null;
  }

  /** `file:///a` and `file:/a` are one. */
  private static String bare(String name) {
    return name.replaceFirst("^file:/+", "file:/");
  }
}
