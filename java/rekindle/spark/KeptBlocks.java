// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerBlockManagerRemoved;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.storage.BlockId;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.storage.BlockManagerMaster;
import org.apache.spark.storage.RDDBlockId;
import org.apache.spark.storage.StorageLevel;

import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction2;
import scala.runtime.BoxedUnit;

/**
 * Caching and memory results: the rows of each partition are one block of Spark's block manager.
 *
 * Rules:
 * 1. A block is named by a number of its attempt and by its Spark task attempt: what a speculative or late task stores is a block of its own, and what was
 *    reported once is never replaced. The number is that of an RDD which does not exist, so that no other block can have the name, eviction spares the
 *    attempt's own blocks, and all of them go in one call.
 * 2. There is no lineage: a block that is gone is an error wherever it is read, so that nothing is made again behind the master's back.
 * 3. A partition without rows has no block. One for which there was no room was not made.
 * 4. A name speaks of a block of this application only: numbers are told apart by the directory they were given to, here.
 * 5. Blocks do not outlive their master (ExecutorLease).
 */
public final class KeptBlocks extends SparkListener {
  static final ClassTag<byte[]> BYTES = ClassTag$.MODULE$.apply(byte[].class);
  private static final ConcurrentHashMap<String, Integer> NUMBERS = new ConcurrentHashMap<>();
  private static final ConcurrentHashMap<String, Queue<Integer>> NO_ROOM = new ConcurrentHashMap<>();
  private static final AtomicInteger REMOVED = new AtomicInteger();
  /** What a task without rows says of a stage that has other tasks than the layout has partitions: nothing. */
  private static final String UNTOLD = "-";

  /**
   * Compute all partitions of a query execution and store each where it was computed. Partition i has the i-th of `numbers` (little-endian ints), or i
   * itself if there are none. Each is told as the commit protocol tells of files. Returns the rows that were stored.
   */
  public static long write(
      SparkSession session, QueryExecution execution, StructType schema, Storing how, Laws laws, String name, String directory, byte[] numbers) {
    int number = numbered(session, directory);
    AttemptCommitProtocol.open(directory);
    Told told = new Told(directory, number, Bridge.numbers(numbers));
    Put put = new Put(number, directory, schema, how, laws);
    SQLExecution.withNewExecutionId(execution, Option.apply(name), () -> {
      session.sparkContext().runJob(execution.toRdd(), put, told, ClassTag$.MODULE$.<String>apply(String.class));
      return BoxedUnit.UNIT;
    });
    return told.rows;
  }

  /** The number of the blocks that belong to a directory. */
  static int numbered(SparkSession session, String directory) {
    return NUMBERS.computeIfAbsent(directory, key -> session.sparkContext().newRddId());
  }

  /** How a block is called below the directory that it belongs to. */
  static String name(int task, int partition, int number) {
    return String.format("part-%d_%05d.rdd%d", task, partition, number);
  }

  /** How blocks are stored: on disk where memory has no room, on how many executors, and whether each partition gets a digest. */
  public record Storing(boolean usesDisk, int replicas, boolean isDigested) implements Serializable {
    StorageLevel level() {
      return StorageLevel.apply(usesDisk, true, false, replicas);
    }
  }

  public static Storing storing(boolean usesDisk, int replicas, boolean isDigested) {
    return new Storing(usesDisk, replicas, isDigested);
  }

  /** The partitions of an attempt for which there was no room, one per line. Then they are forgotten. */
  public static String takeNoRoom(String directory) {
    Queue<Integer> found = NO_ROOM.remove(directory);
    return found == null ? "" : String.join("\n", found.stream().map(String::valueOf).toList());
  }

  /** Those of these blocks (paths as they stand in errors, one per line) that nobody in this application has. */
  public static String gone(String paths) {
    List<String> named = paths.lines().toList();
    IndexedSeq<Seq<BlockManagerId>> places = places(named);
    List<String> found = new ArrayList<>();
    for (int i = 0; i < named.size(); i++) {
      if (places.apply(i).isEmpty() || !isOurs(named.get(i))) {
        found.add(named.get(i));
      }
    }
    return String.join("\n", found);
  }

  /** The index of these blocks, each with the executors that have it. `names` holds one line per block: path below the root, tab, bytes. */
  public static CommittedFiles index(String root, String names) {
    List<String> lines = names.lines().toList();
    IndexedSeq<Seq<BlockManagerId>> places = places(lines.stream().map(line -> line.substring(0, line.indexOf('\t'))).toList());
    CommittedFiles index = new CommittedFiles(root, names);
    for (int i = 0; i < lines.size(); i++) {
      index.files[i] = located(index.files[i], places.apply(i));
    }
    return index;
  }

  /** Remove all blocks of an attempt, and tell so: an executor without blocks may be given back. Removing what is not there is no error. */
  public static void release(SparkSession session, String directory) {
    NO_ROOM.remove(directory);
    Integer number = NUMBERS.remove(directory);
    if (number != null) {
      session.sparkContext().unpersistRDD(number, false);
    }
  }

  /** How often an executor has gone, with its blocks. */
  public static int removed() {
    return REMOVED.get();
  }

  @Override
  public void onBlockManagerRemoved(SparkListenerBlockManagerRemoved removed) {
    REMOVED.incrementAndGet();
  }

  /** The block that a path names: `…/part-TASK_PARTITION.rddNUMBER`. */
  static RDDBlockId block(String path) {
    String name = path.substring(path.lastIndexOf('/') + 1);
    int task = Integer.parseInt(name.substring(name.indexOf('-') + 1, name.indexOf('_')));
    return new RDDBlockId(Integer.parseInt(name.substring(name.lastIndexOf(".rdd") + 4)), task);
  }

  private static boolean isOurs(String path) {
    Integer number = NUMBERS.get(path.substring(0, path.lastIndexOf('/')));
    return number != null && number == block(path).rddId();
  }

  private static IndexedSeq<Seq<BlockManagerId>> places(List<String> paths) {
    return master().getLocations(paths.stream().map(KeptBlocks::block).toArray(BlockId[]::new));
  }

  private static FileStatus located(FileStatus file, Seq<BlockManagerId> places) {
    List<String> hosts = new ArrayList<>();
    for (BlockManagerId place : CollectionConverters.asJava(places)) {
      hosts.add("executor_" + place.host() + "_" + place.executorId()); // As Spark's scheduler names one executor of a host.
    }
    String[] named = hosts.toArray(new String[0]);
    return new LocatedFileStatus(file, new BlockLocation[] {new BlockLocation(named, named, 0, Math.max(file.getLen(), 1))});
  }

  private static BlockManagerMaster master() {
    return SparkEnv.get().blockManager().master();
  }

  /** One task: the rows of a partition become a block. Tells task attempt, rows, bytes, digest; nothing if there was no room. */
  private static final class Put extends AbstractFunction2<TaskContext, Iterator<InternalRow>, String> implements Serializable {
    private static final long serialVersionUID = 1L;
    private final int number;
    private final String directory;
    private final StructType schema;
    private final Storing how;
    private final Laws laws;

    Put(int number, String directory, StructType schema, Storing how, Laws laws) {
      this.number = number;
      this.directory = directory;
      this.schema = schema;
      this.how = how;
      this.laws = laws;
    }

    @Override
    public String apply(TaskContext context, Iterator<InternalRow> rows) {
      int task = (int) (context.taskAttemptId() & Integer.MAX_VALUE);
      Watch watch = laws.watch(rows);
      if (!watch.hasNext()) {
        return watch.isAsPlanned() ? task + "\t0\t-1\t" : UNTOLD;
      }
      LocalFolders.mark();
      ExecutorLease.hold(number, directory);
      RDDBlockId block = new RDDBlockId(number, task);
      RowChunks chunks = new RowChunks(watch, schema, how.isDigested() ? new RowDigest(schema) : null);
      boolean isStored = SparkEnv.get().blockManager().putIterator(block, chunks, how.level(), true, BYTES);
      if (!isStored && how.usesDisk()) {
        throw new IllegalStateException("block " + block + " could not be stored");
      }
      return isStored ? task + "\t" + watch.end(chunks.count()) + "\t" + chunks.bytes() + "\t" + chunks.digest() : "";
    }
  }

  /** What a task told, on the driver, as it arrives. */
  private static final class Told extends AbstractFunction2<Object, String, BoxedUnit> {
    private final String directory;
    private final int number;
    private final int[] partitions;
    private long rows; // Spark calls this from one thread at a time.

    Told(String directory, int number, int[] partitions) {
      this.directory = directory;
      this.number = number;
      this.partitions = partitions;
    }

    @Override
    public BoxedUnit apply(Object index, String told) {
      if (told.equals(UNTOLD)) {
        return BoxedUnit.UNIT;
      }
      int partition = partitions.length == 0 ? (Integer) index : partitions[(Integer) index];
      if (told.isEmpty()) {
        NO_ROOM.computeIfAbsent(directory, key -> new ConcurrentLinkedQueue<>()).add(partition);
        return BoxedUnit.UNIT;
      }
      String[] parts = told.split("\t", 4);
      rows += Long.parseLong(parts[1]);
      String line = partition + "\t" + parts[0] + "\t" + parts[1];
      if (!parts[2].equals("-1")) {
        line += "\t" + name(Integer.parseInt(parts[0]), partition, number) + "\t" + parts[2];
        line += parts[3].isEmpty() ? "" : "\t" + parts[3];
      }
      AttemptCommitProtocol.add(directory, line);
      return BoxedUnit.UNIT;
    }
  }
}
