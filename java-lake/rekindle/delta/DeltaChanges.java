// SPDX-License-Identifier: Apache-2.0
package rekindle.delta;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.core.JsonProcessingException;

import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.delta.DeltaLog;
import org.apache.spark.sql.delta.actions.Action;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.delta.actions.CommitInfo;
import org.apache.spark.sql.delta.actions.RemoveFile;

import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/** What commits to a Delta table did to its rows. Those that only moved rows to other files (OPTIMIZE) did nothing to them. */
public final class DeltaChanges {
  private DeltaChanges() {}

  /**
   * The files whose rows came or went with the commits after a version, one per line: what the writer told of its commit as one line of text, tab, the commit in
   * words, tab, and the file as `DeltaTables.files` tells it. `gone` where the log does not go back to that version.
   */
  public static String since(SparkSession session, String path, long version) throws JsonProcessingException {
    DeltaLog log = DeltaLog.forTableWithSnapshot(session, new Path(path))._1();
    List<String> lines = new ArrayList<>();
    long expected = version + 1;
    Iterator<Tuple2<Object, scala.collection.immutable.Seq<Action>>> commits = log.getChanges(expected, Option.empty(), false);
    while (commits.hasNext()) {
      Tuple2<Object, scala.collection.immutable.Seq<Action>> commit = commits.next();
      if ((Long) commit._1() != expected++) {
        return "gone";
      }
      lines.addAll(changed((Long) commit._1(), CollectionConverters.asJava(commit._2())));
    }
    return expected <= log.unsafeVolatileSnapshot().version() ? "gone" : String.join("\n", lines);
  }

  private static List<String> changed(long version, List<Action> actions) throws JsonProcessingException {
    List<String> files = new ArrayList<>();
    String told = "";
    String name = "version " + version;
    for (Action action : actions) {
      if (action instanceof CommitInfo info) {
        told = info.userMetadata().getOrElse(() -> "").replaceAll("\\s", " ");
        name += ", " + info.operation();
      } else if (action instanceof AddFile file && file.dataChange()) {
        files.add(DeltaTables.told(file));
      } else if (action instanceof RemoveFile file && file.dataChange()) {
        long size = file.size().getOrElse(() -> 0L);
        var values = file.partitionValues() == null ? Map.<String, String>of() : CollectionConverters.asJava(file.partitionValues());
        files.add(DeltaTables.told(file.path(), size, values, file.stats(), "", file.deletionVector() != null));
      }
    }
    List<String> lines = new ArrayList<>();
    for (String file : files) {
      lines.add(told + "\t" + name + "\t" + file);
    }
    return lines;
  }
}
