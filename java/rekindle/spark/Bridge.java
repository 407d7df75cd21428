// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.spark.Dependency;
import org.apache.spark.MapOutputTrackerMaster;
import org.apache.spark.NarrowDependency;
import org.apache.spark.OneToOneDependency;
import org.apache.spark.Partition;
import org.apache.spark.ShuffleStatus;
import org.apache.spark.SparkEnv;
import org.apache.spark.rdd.PartitionPruningRDD;
import org.apache.spark.rdd.RDD;
import org.apache.spark.rdd.UnionRDD;
import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.shuffle.sort.SortShuffleManager;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.ApplyColumnarRulesAndInsertTransitions;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.FileScanRDD;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;
import org.apache.spark.sql.execution.datasources.PartitionedFile;

import scala.Function1;
import scala.Option;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/** What Python asks of the JVM in one call instead of one call per partition. */
public final class Bridge {
  /** The checksum of a map task without rows; any number but 0. */
  private static final long NO_ROWS = 0x6e6f20726f7773L;

  private Bridge() {}

  /**
   * Spark's plain file write of the plan of a held query execution, with an execution of its own in Spark's UI and event log. Its rows are watched; a node
   * takes its session from the thread. Returns the rows that Spark says were written.
   */
  public static long write(SparkSession session, QueryExecution held, Laws laws, String name, Files to) {
    InsertIntoHadoopFsRelationCommand command =
        new InsertIntoHadoopFsRelationCommand(
            new Path(to.directory()),
            SparkLine.immutable(Map.of()),
            false,
            SparkObjects.seq(List.of()),
            Option.empty(),
            new KeptParquet(to.isDigested()),
            SparkLine.immutable(to.options()),
            held.optimizedPlan(),
            SaveMode.Append,
            Option.empty(),
            Option.empty(),
            SparkObjects.seq(to.columns()));
    SparkPlan watched = session.withActive(() -> new WatchedRows(held.executedPlan(), laws));
    SQLExecution.withNewExecutionId(held, Option.apply(name), () -> command.run(session, watched));
    return command.metrics().apply("numOutputRows").value();
  }

  /** Where rows are written and how: their columns, options of the write, and whether each partition gets a digest. */
  public record Files(String directory, List<String> columns, Map<String, String> options, boolean isDigested) {}

  /** Little-endian ints, as Python packs them. */
  static int[] numbers(byte[] packed) {
    int[] found = new int[packed.length / Integer.BYTES];
    ByteBuffer.wrap(packed).order(ByteOrder.LITTLE_ENDIAN).asIntBuffer().get(found);
    return found;
  }

  /** Only the partitions in `chosen` (little-endian ints, ascending). Partition i is the i-th chosen one. */
  public static RDD<InternalRow> prune(RDD<InternalRow> rdd, byte[] chosen) {
    int[] sorted = numbers(chosen);
    Function1<Object, Object> isChosen =
        (Function1<Object, Object> & Serializable) index -> Arrays.binarySearch(sorted, (Integer) index) >= 0;
    return PartitionPruningRDD.create(rdd, isChosen);
  }

  /**
   * How the file scans below an RDD are cut, one line per partition of it: path, first byte and length of each of its pieces. Several scans only in a
   * union, whose partitions are theirs one after the other. Empty if its partitions are others than those of scans: above an exchange a task reads no
   * file.
   */
  public static String splits(RDD<?> rdd) {
    List<String> found = pieces(rdd);
    return found == null ? "" : String.join("", found);
  }

  private static List<String> pieces(RDD<?> rdd) {
    if (rdd instanceof FileScanRDD scan) {
      return pieces(scan);
    }
    List<Dependency<?>> dependencies = CollectionConverters.asJava(rdd.dependencies()).stream().<Dependency<?>>map(one -> one).toList();
    if (rdd instanceof UnionRDD<?>) {
      List<List<String>> sides = dependencies.stream().map(one -> pieces(one.rdd())).toList();
      return sides.contains(null) ? null : sides.stream().flatMap(List::stream).toList();
    }
    if (dependencies.size() != 1 || !(dependencies.get(0) instanceof NarrowDependency<?> narrow)) {
      return null;
    }
    List<String> below = pieces(narrow.rdd());
    if (below == null || narrow instanceof OneToOneDependency<?>) {
      return below;
    }
    List<String> found = new ArrayList<>();
    for (Partition partition : rdd.partitions()) {
      StringBuilder line = new StringBuilder();
      CollectionConverters.asJava(narrow.getParents(partition.index()))
          .forEach(parent -> line.append(below.get((Integer) parent).stripTrailing()).append(' '));
      found.add(line.append('\n').toString());
    }
    return found;
  }

  private static List<String> pieces(FileScanRDD scan) {
    List<String> found = new ArrayList<>();
    for (Iterator<FilePartition> it = scan.filePartitions().iterator(); it.hasNext(); ) {
      StringBuilder line = new StringBuilder();
      for (PartitionedFile file : it.next().files()) {
        line.append(file.filePath().toPath()).append(' ').append(file.start()).append('+').append(file.length()).append(' ');
      }
      found.add(line.append('\n').toString());
    }
    return found;
  }

  /**
   * Every file below a directory, one per line: path below it, tab, length. Empty if there is no such directory. Files may come and go meanwhile
   * (a failed task removes its own): one that goes is not listed, and is no error.
   */
  public static String list(SparkSession session, String directory) throws IOException {
    Path root = new Path(directory);
    FileSystem fs = root.getFileSystem(session.sessionState().newHadoopConf());
    String prefix = fs.makeQualified(root).toUri().getPath() + "/";
    StringBuilder lines = new StringBuilder();
    if (fs instanceof LocalFileSystem) {
      walk(fs, root, prefix, lines);
      return lines.toString();
    }
    try {
      for (RemoteIterator<LocatedFileStatus> it = fs.listFiles(root, true); it.hasNext(); ) {
        line(it.next(), prefix, lines);
      }
    } catch (FileNotFoundException e) {
      return ""; // Nothing was written there, or not yet.
    }
    return lines.toString();
  }

  /** On local disk: `listFiles` there asks `ls` for each file's permissions, one process per file, and fails if the file went meanwhile. */
  private static void walk(FileSystem fs, Path directory, String prefix, StringBuilder lines) throws IOException {
    try {
      for (FileStatus status : fs.listStatus(directory)) {
        if (status.isDirectory()) {
          walk(fs, status.getPath(), prefix, lines);
        } else {
          line(status, prefix, lines);
        }
      }
    } catch (FileNotFoundException e) {
      return; // Not there, or no longer.
    }
  }

  private static void line(FileStatus file, String prefix, StringBuilder lines) {
    String name = file.getPath().toUri().getPath().substring(prefix.length());
    lines.append(name).append('\t').append(file.getLen()).append('\n');
  }

  /** The length of a file; -1 if there is no such file. */
  public static long length(SparkSession session, String file) throws IOException {
    Path path = new Path(file);
    try {
      return path.getFileSystem(session.sessionState().newHadoopConf()).getFileStatus(path).getLen();
    } catch (FileNotFoundException e) {
      return -1;
    }
  }

  /** Write a small file, replacing it. */
  public static void put(SparkSession session, String file, byte[] body) throws IOException {
    Path path = new Path(file);
    try (FSDataOutputStream out = path.getFileSystem(session.sessionState().newHadoopConf()).create(path, true)) {
      out.write(body);
    }
  }

  /** A small file's bytes; none if there is no such file. */
  public static byte[] get(SparkSession session, String file) throws IOException {
    Path path = new Path(file);
    try (FSDataInputStream in = path.getFileSystem(session.sessionState().newHadoopConf()).open(path)) {
      return in.readAllBytes();
    } catch (FileNotFoundException e) {
      return new byte[0];
    }
  }

  /** Remove a directory and all below it, and what is empty above it then. What is not there is no error. */
  public static void delete(SparkSession session, String directory, int levels) throws IOException {
    Path path = new Path(directory);
    delete(path.getFileSystem(session.sessionState().newHadoopConf()), path, levels);
  }

  /**
   * The same, for a file too. As many directories above it as `levels` says go if they are empty: an object store gets an
   * object for each. On a local disk they stay: there a writer makes them and then its file, and must not lose them in
   * between.
   */
  static void delete(FileSystem fs, Path path, int levels) throws IOException {
    fs.delete(path, true);
    if (fs instanceof LocalFileSystem) {
      return;
    }
    try {
      for (int level = 0; level < levels; level++) {
        path = path.getParent();
        fs.delete(path, false);
      }
    } catch (IOException e) {
      // Somebody else has files there; each store says so with an exception of its own. Empty directories hurt nobody.
    }
  }

  /**
   * The rows of a plan that adaptive execution had reached when a map stage failed. Nodes are put between rows and columns
   * as Spark does before it runs a plan; they take their session from the thread, which is anyone's here.
   */
  public static RDD<InternalRow> reached(SparkSession session, SparkPlan plan) {
    ApplyColumnarRulesAndInsertTransitions rules =
        new ApplyColumnarRulesAndInsertTransitions(session.sessionState().columnarRules(), false);
    return session.withActive(() -> rules.apply(plan).execute());
  }

  /**
   * The map outputs of one exchange as Spark knows them now, as big-endian longs: the number of maps; for each its map
   * task attempt (-1 if there is no output) and its order-independent checksum; the indices whose checksum ever changed.
   * Nothing at all if Spark does not know it. Spark's checksum of no rows is 0, as that of rows it could not sum up: here
   * a map task all of whose blocks are empty has a checksum of its own.
   */
  public static byte[] exchange(int shuffleId, int reducers) {
    MapOutputTrackerMaster tracker = (MapOutputTrackerMaster) SparkEnv.get().mapOutputTracker();
    Option<ShuffleStatus> found = tracker.shuffleStatuses().get(shuffleId);
    if (found.isEmpty()) {
      return new byte[0];
    }
    ShuffleStatus status = found.get();
    MapStatus[] maps = status.mapStatuses();
    long[] mismatched = SparkLine.mismatched(status);
    ByteBuffer out = ByteBuffer.allocate((1 + 2 * maps.length + mismatched.length) * Long.BYTES);
    out.putLong(maps.length);
    for (MapStatus map : maps) {
      out.putLong(map == null ? -1L : map.mapId());
      out.putLong(map == null ? 0L : checksum(map, reducers));
    }
    for (long index : mismatched) {
      out.putLong(index);
    }
    return out.array();
  }

  /** The class that shuffles in this application, if it is not Spark's own; else empty. */
  @SuppressWarnings("deprecation") // Since 4.3 Spark would rather hand out the API of it alone.
  public static String otherShuffleManager() {
    Class<?> found = SparkEnv.get().shuffleManager().getClass();
    return found == SortShuffleManager.class ? "" : found.getName();
  }

  /** The name of the Spark line that this jar was built for. */
  public static String line() {
    return SparkLine.NAME;
  }

  private static long checksum(MapStatus map, int reducers) {
    long sum = SparkLine.checksum(map);
    for (int reduce = 0; sum == 0 && reduce < reducers; reduce++) {
      if (map.getSizeForBlock(reduce) > 0) {
        return 0L;
      }
    }
    return sum == 0 ? NO_ROWS : sum;
  }
}
