// SPDX-License-Identifier: Apache-2.0
package rekindle.delta;

import java.io.IOException;
import java.net.URI;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.delta.DeltaLog;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.delta.files.TahoeLogFileIndex;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

import rekindle.spark.PlanLeaves;

import scala.Option;

/**
 * Delta tables that a plan reads. One that is read without a version is looked at again by every query: two of one run would
 * read two versions. In a pinned plan each is read at the version that is named for it.
 */
public final class DeltaSources {
  private DeltaSources() {}

  /** Tables that the plan reads at no version of the user's: path, id, version as it is now, age in milliseconds; by tabs. */
  public static String newest(QueryExecution execution) {
    Set<String> lines = new HashSet<>();
    for (LogicalRelation leaf : leaves(execution)) {
      TahoeLogFileIndex index = index(leaf);
      Snapshot now = index.getSnapshot();
      String path = index.deltaLog().dataPath().toString();
      lines.add(String.join("\t", path, now.metadata().id(), Long.toString(now.version()), Long.toString(now.timestamp())));
    }
    return String.join("\n", lines);
  }

  /** The plan with each of its tables at a version: path, tab, version. Empty where a table has other columns there. */
  public static Option<Dataset<Row>> at(SparkSession session, QueryExecution execution, String versions) {
    Map<String, String> wanted = new HashMap<>();
    versions.lines().forEach(line -> wanted.put(line.substring(0, line.indexOf('\t')), line.substring(line.indexOf('\t') + 1)));
    Map<LogicalPlan, LogicalPlan> instead = new IdentityHashMap<>();
    for (LogicalRelation leaf : leaves(execution)) {
      HadoopFsRelation files = (HadoopFsRelation) leaf.relation();
      TahoeLogFileIndex index = index(leaf);
      Snapshot then =
          index.deltaLog().getSnapshotAt(
              Long.parseLong(wanted.get(index.deltaLog().dataPath().toString())), Option.empty(), Option.empty(), false);
      if (!then.schema().equals(index.snapshotAtAnalysis().schema())) {
        return Option.empty();
      }
      TahoeLogFileIndex fixed =
          TahoeLogFileIndex.apply(
              index.spark(), index.deltaLog(), index.path(), then, index.catalogTableOpt(), index.partitionFilters(), true);
      HadoopFsRelation made =
          new HadoopFsRelation(
              fixed, files.partitionSchema(), files.dataSchema(), files.bucketSpec(), files.fileFormat(), files.options(), files.sparkSession());
      instead.put(leaf, new LogicalRelation(made, leaf.output(), leaf.catalogTable(), leaf.isStreaming(), leaf.stream()));
    }
    return Option.apply(PlanLeaves.replaced(session, execution, instead));
  }

  /** Why a version of a table cannot be read any more; empty if it can. Files that later versions have too are not asked for. */
  public static String gone(SparkSession session, String path, String id, long version) throws IOException {
    Snapshot newest = DeltaLog.forTableWithSnapshot(session, new Path(path))._2();
    if (newest.version() < version || !newest.metadata().id().equals(id)) {
      return "another table is in its place";
    }
    DeltaLog log = DeltaLog.forTable(session, new Path(path));
    Snapshot then;
    Set<String> kept = new HashSet<>();
    try {
      then = log.getSnapshotAt(version, Option.empty(), Option.empty(), false);
      for (AddFile file : (AddFile[]) newest.allFiles().collect()) {
        kept.add(file.path());
      }
      FileSystem fs = log.dataPath().getFileSystem(session.sessionState().newHadoopConf());
      for (AddFile file : (AddFile[]) then.allFiles().collect()) {
        Path place = new Path(log.dataPath(), new Path(URI.create(file.path())));
        if (!kept.contains(file.path()) && !fs.exists(place)) {
          return "its files were removed (VACUUM), such as " + place.getName();
        }
      }
    } catch (RuntimeException e) {
      return "its log does not go back to it";
    }
    return "";
  }

  /** The paths of the tables that the plan reads at one version, a line each. */
  public static String fixed(QueryExecution execution) {
    Set<String> paths = new HashSet<>();
    for (LogicalRelation leaf : leaves(execution, true)) {
      paths.add(index(leaf).deltaLog().dataPath().toString());
    }
    return String.join("\n", paths);
  }

  private static TahoeLogFileIndex index(LogicalRelation leaf) {
    return (TahoeLogFileIndex) ((HadoopFsRelation) leaf.relation()).location();
  }

  private static List<LogicalRelation> leaves(QueryExecution execution) {
    return leaves(execution, false);
  }

  private static List<LogicalRelation> leaves(QueryExecution execution, boolean isFixed) {
    List<LogicalRelation> found = new ArrayList<>();
    for (LogicalPlan node : PlanLeaves.nodes(execution)) {
      if (node instanceof LogicalRelation leaf
          && leaf.relation() instanceof HadoopFsRelation files
          && files.location() instanceof TahoeLogFileIndex index
          && index.isTimeTravelQuery() == isFixed) {
        found.add(leaf);
      }
    }
    return found;
  }
}
