// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentSkipListMap;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.storage.RDDBlockId;
import org.apache.spark.storage.StorageLevel;

import scala.collection.Iterator;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction2;
import scala.runtime.BoxedUnit;

/**
 * Batches of a memory result between regions: the rows of each partition are one block in the memory of an executor. Rules:
 * 1. Blocks are named as those of kept results are ({@link KeptBlocks}), by a number that each batch has for itself, so that a batch goes in one call.
 * 2. There is no lineage and no disk: a block that is evicted, lost with its executor, or for which there was no room, is gone, and so is its batch.
 * 3. All batches of a result have at most so many bytes: the oldest go first, and the newest one stays.
 * 4. They do not outlive the driver that has the stream ({@link ExecutorLease}).
 */
public final class StreamBlocks {
  private static final String OWNER = "spark.rekindle.stream.owner";
  private static final String ROOT = "spark.rekindle.stream.root";
  /** By the path of a result: its batches that are there, oldest first. */
  private static final Map<String, TreeMap<Long, Kept>> RESULTS = new HashMap<>();

  private StreamBlocks() {}

  private record Kept(String directory, long bytes) {}

  /** The rows of a batch as blocks: name and bytes of each, and the digest of all. */
  static StreamFiles.Written write(SparkSession session, QueryExecution execution, String directory, Configuration settings) {
    StructType schema = execution.analyzed().schema();
    Put put = new Put(KeptBlocks.numbered(session, directory), schema, settings.get(ROOT, ""), settings.get(OWNER, ""));
    ConcurrentSkipListMap<Integer, String> told = new ConcurrentSkipListMap<>();
    session.sparkContext().runJob(execution.toRdd(), put, new Told(told), ClassTag$.MODULE$.<String>apply(String.class));
    List<String> files = new ArrayList<>();
    List<String> digests = new ArrayList<>();
    for (String line : told.values()) {
      int last = line.lastIndexOf('\t');
      files.add(line.substring(0, last));
      digests.add(line.substring(last + 1));
    }
    return new StreamFiles.Written(files, Kinds.isKnown(schema) ? RowDigest.sum(digests, schema) : "");
  }

  /** A batch counts from now on. */
  static void keep(SparkSession session, String result, long batch, String directory, List<String> files, long capacity) {
    long bytes = files.stream().mapToLong(line -> Long.parseLong(line.substring(line.indexOf('\t') + 1))).sum();
    List<Kept> gone = new ArrayList<>();
    synchronized (RESULTS) {
      TreeMap<Long, Kept> batches = RESULTS.computeIfAbsent(result, key -> new TreeMap<>());
      batches.put(batch, new Kept(directory, bytes));
      long all = batches.values().stream().mapToLong(Kept::bytes).sum();
      while (all > capacity && batches.size() > 1) {
        Kept oldest = batches.pollFirstEntry().getValue();
        all -= oldest.bytes();
        gone.add(oldest);
      }
    }
    gone.forEach(one -> KeptBlocks.release(session, one.directory()));
  }

  /** Batches up to this one are of no use any more. */
  public static void passed(SparkSession session, String result, long through) {
    List<Kept> gone;
    synchronized (RESULTS) {
      Map<Long, Kept> passed = RESULTS.getOrDefault(new Path(result).toString(), new TreeMap<>()).headMap(through, true);
      gone = new ArrayList<>(passed.values());
      passed.clear();
    }
    gone.forEach(one -> KeptBlocks.release(session, one.directory()));
  }

  /** One task: name, bytes and digest of its block; nothing where it has no rows. */
  private static final class Put extends AbstractFunction2<TaskContext, Iterator<InternalRow>, String> implements Serializable {
    private static final long serialVersionUID = 1L;
    private final int number;
    private final StructType schema;
    private final String root;
    private final String owner;

    Put(int number, StructType schema, String root, String owner) {
      this.number = number;
      this.schema = schema;
      this.root = root;
      this.owner = owner;
    }

    @Override
    public String apply(TaskContext context, Iterator<InternalRow> rows) {
      if (!rows.hasNext()) {
        return "";
      }
      int task = (int) (context.taskAttemptId() & Integer.MAX_VALUE);
      LocalFolders.mark();
      ExecutorLease.hold(number, root, owner);
      RowChunks chunks = new RowChunks(rows, schema, Kinds.isKnown(schema) ? new RowDigest(schema) : null);
      StorageLevel level = StorageLevel.apply(false, true, false, 1);
      boolean isStored = SparkEnv.get().blockManager().putIterator(new RDDBlockId(number, task), chunks, level, true, KeptBlocks.BYTES);
      return KeptBlocks.name(task, context.partitionId(), number) + "\t" + chunks.bytes() + "\t" + (isStored ? chunks.digest() : "");
    }
  }

  /** On the driver, as tasks end: what each told, in the order of partitions. */
  private static final class Told extends AbstractFunction2<Object, String, BoxedUnit> {
    private final Map<Integer, String> told;

    Told(Map<Integer, String> told) {
      this.told = told;
    }

    @Override
    public BoxedUnit apply(Object index, String line) {
      if (!line.isEmpty()) {
        told.put((Integer) index, line);
      }
      return BoxedUnit.UNIT;
    }
  }
}
