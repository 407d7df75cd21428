// SPDX-License-Identifier: Apache-2.0
package rekindle.test;

import java.util.ArrayList;
import java.util.List;

import org.apache.spark.SparkEnv;
import org.apache.spark.memory.MemoryManager;
import org.apache.spark.memory.MemoryMode;
import org.apache.spark.storage.BlockId;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.storage.RDDBlockId;
import org.apache.spark.storage.StorageStatus;

import scala.Function1;
import scala.jdk.javaapi.CollectionConverters;

/** The blocks of RDDs that the driver of a local application has, and the memory it has for them; and who has blocks on a cluster. */
public final class StoredBlocks {
  private StoredBlocks() {}

  public static int count() {
    Function1<BlockId, Object> isOfRdd = BlockId::isRDD;
    return SparkEnv.get().blockManager().getMatchingBlockIds(isOfRdd).size();
  }

  /** The blocks of RDDs on all executors, as Spark lists them on the driver. */
  public static int listed() {
    int found = 0;
    for (StorageStatus one : SparkEnv.get().blockManager().master().getStorageStatus()) {
      found += one.rddBlocks().size();
    }
    return found;
  }

  /** The hosts that have a block, as the driver knows it. */
  public static String hosts(int rdd, int split) {
    List<String> found = new ArrayList<>();
    for (BlockManagerId place : CollectionConverters.asJava(SparkEnv.get().blockManager().master().getLocations(new RDDBlockId(rdd, split)))) {
      found.add(place.host());
    }
    return String.join(",", found);
  }

  /** The executors that the driver knows to have blocks, by their ids. */
  public static String executors() {
    List<String> found = new ArrayList<>();
    for (BlockManagerId place : CollectionConverters.asJava(SparkEnv.get().blockManager().master().getMemoryStatus()).keySet()) {
      found.add(place.executorId());
    }
    return String.join(",", found);
  }

  /** One block goes, as when its room is needed. */
  public static void remove(int rdd, int split) {
    SparkEnv.get().blockManager().removeBlock(new RDDBlockId(rdd, split), true);
  }

  /** Take all the room there is for blocks, that of blocks which can go included. Returns what was taken. */
  public static long crowd() {
    MemoryManager memory = SparkEnv.get().memoryManager();
    long taken = 0;
    for (long step = 64 << 20; step >= 64 << 10; step /= 2) {
      while (memory.acquireStorageMemory(new RDDBlockId(Integer.MAX_VALUE, 0), step, MemoryMode.ON_HEAP)) {
        taken += step;
      }
    }
    return taken;
  }

  public static void leave(long taken) {
    SparkEnv.get().memoryManager().releaseStorageMemory(taken, MemoryMode.ON_HEAP);
  }
}
