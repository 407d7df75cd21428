// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkEnv;
import org.apache.spark.deploy.SparkHadoopUtil;
import org.apache.spark.storage.BlockId;
import org.apache.spark.storage.BlockManager;
import org.apache.spark.storage.BlockManagerMaster;
import org.apache.spark.storage.RDDBlockId;
import org.apache.spark.storage.StorageLevel;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Blocks of an executor do not outlive their master: a thread of the executor looks at the heartbeats of the runs that it has blocks of. It also removes
 * what killed executors left in the local folders of its host.
 *
 * <p>Rules:
 *
 * <ol>
 *   <li>A run whose newest heartbeat is that of another process was taken over: that one cannot read blocks of this application, so they go at once.
 *   <li>A heartbeat that was not renewed for a stated time is silence: the blocks go. A driver that said that it left may come back in the same application: it
 *       is waited for longer. Time is that of this JVM, so that no clocks are compared.
 *   <li>Where heartbeats cannot be read nothing is known, and nothing goes. A run without any was deleted.
 *   <li>`silentSeconds` 0 switches all of it off.
 *   <li>A block that is gone is an error wherever it is read, and is made again by name: whoever wakes up late computes more, and nothing else.
 * </ol>
 */
final class ExecutorLease implements Runnable {
  static final String SILENT = "spark.executor.rekindle.silentSeconds";
  static final String LEFT = "spark.executor.rekindle.leftSeconds";
  private static final long SILENT_SECONDS = 120, LEFT_SECONDS = 3600;
  /** Folders are looked at each so many turns: nobody waits for their room. */
  private static final long FOLDERS_EVERY = 6;
  private static final Logger LOG = LoggerFactory.getLogger(ExecutorLease.class);
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Pattern ATTEMPT = Pattern.compile("(.+)/results/[^/]+/g\\d+/e(\\d+)-a\\d+");
  private static ExecutorLease started;

  private final SparkEnv env;
  private final long silentNanos;
  private final long leftNanos;
  /** By the number of an attempt's blocks, or of a batch of a stream: its run and master. */
  private final Map<Integer, Held> held = new ConcurrentHashMap<>();
  /** By run: what was seen last. Only the thread knows it. */
  private final Map<String, Seen> seen = new HashMap<>();

  /** A run with the epoch of its master, or a stream with its master as heartbeats name it. */
  private record Held(String run, long epoch, String owner) {}

  private record Seen(String beat, long atNanos) {}

  private enum Verdict {
    LIVES,
    UNKNOWN,
    TAKEN_OVER,
    SILENT,
    DELETED
  }

  private ExecutorLease(SparkEnv env) {
    this.env = env;
    silentNanos = TimeUnit.SECONDS.toNanos(env.conf().getLong(SILENT, SILENT_SECONDS));
    leftNanos = TimeUnit.SECONDS.toNanos(env.conf().getLong(LEFT, LEFT_SECONDS));
  }

  /** This executor has blocks with this number, of an attempt with this directory: `RUN/results/STEP/gG/eE-aA`. */
  static void hold(int number, String directory) {
    Matcher found = ATTEMPT.matcher(directory);
    if (found.matches()) { // Nobody sends heartbeats for what is not of a run.
      lease().held.putIfAbsent(number, new Held(found.group(1), Long.parseLong(found.group(2)), ""));
    }
  }

  /** This executor has blocks with this number, of a stream with this directory and owner. */
  static void hold(int number, String run, String owner) {
    if (!run.isEmpty()) {
      lease().held.putIfAbsent(number, new Held(run, 0, owner));
    }
  }

  /** Look after what is on this host, also if there is no block yet. */
  static void begin() {
    lease();
  }

  private static synchronized ExecutorLease lease() {
    if (started == null || started.env != SparkEnv.get()) {
      started = new ExecutorLease(SparkEnv.get());
      if (started.silentNanos <= 0) {
        return started; // Switched off.
      }
      Thread thread = new Thread(started, "rekindle-executor-lease");
      thread.setDaemon(true);
      thread.start();
    }
    return started;
  }

  @Override
  public void run() {
    long pause = Math.max(500L, Math.min(10_000L, TimeUnit.NANOSECONDS.toMillis(silentNanos) / 4));
    for (long turn = 1; SparkEnv.get() == env; turn++) {
      try {
        Thread.sleep(pause);
        look();
        if (turn % FOLDERS_EVERY == 0) {
          LocalFolders.removeDead();
        }
      } catch (InterruptedException e) {
        return;
      } catch (Throwable e) { // One that is not caught would end the executor. Nothing is known, and nothing goes.
        LOG.warn("rekindle: heartbeats could not be looked at", e);
        if (e instanceof LinkageError) {
          return;
        }
      }
    }
  }

  private void look() {
    Map<Held, Verdict> verdicts = new HashMap<>();
    for (Map.Entry<Integer, Held> one : held.entrySet()) {
      List<BlockId> blocks = blocks(one.getKey());
      if (blocks.isEmpty()) {
        continue; // They were released, or are being stored.
      }
      Verdict verdict = verdicts.computeIfAbsent(one.getValue(), this::judge);
      if (verdict != Verdict.LIVES && verdict != Verdict.UNKNOWN) {
        LOG.warn("rekindle: {} blocks of {} are released on this executor: its run is {}", blocks.size(), one.getValue(), verdict);
        remove(blocks);
      }
    }
  }

  private Verdict judge(Held one) {
    try {
      FileSystem fs = new Path(one.run()).getFileSystem(conf());
      FileStatus[] beats = fs.listStatus(new Path(one.run(), "heartbeat"));
      FileStatus newest = Arrays.stream(beats).filter(beat -> beat.getPath().getName().matches("\\d+"))
          .max(Comparator.comparing(beat -> beat.getPath().getName())).orElse(null);
      if (newest == null) {
        return Verdict.DELETED;
      }
      JsonNode last = read(fs, newest.getPath());
      long epoch = Long.parseLong(newest.getPath().getName());
      if (one.owner().isEmpty() ? epoch > one.epoch() && !isOwnEpoch(fs, one, newest.getPath(), last) : !isOwn(last, one.owner())) {
        return Verdict.TAKEN_OVER;
      }
      String beat = newest.getPath().getName() + " " + newest.getModificationTime() + " " + last.path("sequence").asLong();
      Seen before = seen.get(one.run());
      if (before == null || !before.beat().equals(beat)) {
        seen.put(one.run(), new Seen(beat, System.nanoTime()));
        return Verdict.LIVES;
      }
      long limit = last.path("has_left").asBoolean(false) ? Math.max(leftNanos, silentNanos) : silentNanos;
      return System.nanoTime() - before.atNanos() > limit ? Verdict.SILENT : Verdict.LIVES;
    } catch (FileNotFoundException e) {
      return seen.containsKey(one.run()) ? Verdict.DELETED : Verdict.UNKNOWN;
    } catch (IOException | RuntimeException e) {
      // Whoever could not be heard was not silent: time begins anew.
      seen.computeIfPresent(one.run(), (run, before) -> new Seen(before.beat(), System.nanoTime()));
      return Verdict.UNKNOWN;
    }
  }

  /** Whether the master of a newer epoch is the process that had that of the blocks. */
  private static boolean isOwnEpoch(FileSystem fs, Held one, Path newest, JsonNode last) throws IOException {
    Path own = new Path(newest.getParent(), String.format("%010d", one.epoch()));
    return last.path("owner").equals(read(fs, own).path("owner")) && !last.path("owner").isMissingNode();
  }

  private static boolean isOwn(JsonNode last, String owner) throws IOException {
    return last.path("owner").equals(JSON.readTree(owner));
  }

  private static JsonNode read(FileSystem fs, Path beat) throws IOException {
    try (FSDataInputStream in = fs.open(beat)) {
      return JSON.readTree(in.readAllBytes());
    }
  }

  private Configuration conf() {
    return SparkHadoopUtil.get().newConfiguration(env.conf());
  }

  private List<BlockId> blocks(int number) {
    return CollectionConverters.asJava(
        env.blockManager().getMatchingBlockIds(id -> id instanceof RDDBlockId block && block.rddId() == number).toSeq());
  }

  /** First all of them go; then the driver is told, which may not answer. */
  private void remove(List<BlockId> blocks) {
    BlockManager manager = env.blockManager();
    blocks.forEach(block -> manager.removeBlock(block, false));
    Thread telling = new Thread(() -> blocks.forEach(block -> tell(manager, block)), "rekindle-executor-lease-telling");
    telling.setDaemon(true);
    telling.start();
  }

  /** That this executor has a block no more. Newer versions of Spark take one argument more. */
  private static void tell(BlockManager manager, BlockId block) {
    Object[] given = {manager.blockManagerId(), block, StorageLevel.NONE(), 0L, 0L, Option.empty()};
    try {
      for (Method method : BlockManagerMaster.class.getMethods()) {
        if (method.getName().equals("updateBlockInfo")) {
          method.invoke(manager.master(), Arrays.copyOf(given, method.getParameterCount()));
          return;
        }
      }
    } catch (ReflectiveOperationException | RuntimeException e) {
      LOG.warn("rekindle: the driver was not told that {} is gone", block, e);
    }
  }
}
