// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Properties;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;

import org.apache.spark.TaskFailedReason;
import org.apache.spark.TaskKilled;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.StageInfo;

import scala.collection.Iterator;

/**
 * Which tasks of an attempt failed, and whether they were its final ones. Spark's status store cannot tell: with adaptive execution each map
 * stage is the last one of a job of its own. The listener bus may drop events under load, so nothing here makes a partition count.
 */
public final class FailedTasks extends SparkListener {
  private static final String OURS = "rekindle-";
  private static final int KEPT_MAX = 64;
  /** By which Spark marks the jobs that collect a broadcast; they have our tag, too. */
  private static final String BROADCAST = "broadcast exchange";
  private static final ConcurrentHashMap<Integer, Stage> STAGES = new ConcurrentHashMap<>();
  private static final ConcurrentHashMap<String, Queue<String>> FAILED = new ConcurrentHashMap<>();

  @Override
  public void onJobStart(SparkListenerJobStart job) {
    Properties properties = job.properties();
    String tags = properties == null ? null : properties.getProperty("spark.job.tags");
    if (tags == null) {
      return;
    }
    for (String tag : tags.split(",")) {
      if (tag.startsWith(OURS)) {
        FAILED.computeIfAbsent(tag, key -> new ConcurrentLinkedQueue<>());
        for (Iterator<StageInfo> it = job.stageInfos().iterator(); it.hasNext(); ) {
          StageInfo stage = it.next();
          STAGES.put(stage.stageId(), new Stage(tag, stage.numTasks(), tags.contains(BROADCAST)));
        }
      }
    }
  }

  @Override
  public void onTaskEnd(SparkListenerTaskEnd end) {
    Stage stage = STAGES.get(end.stageId());
    if (stage == null || !(end.reason() instanceof TaskFailedReason failed) || end.reason() instanceof TaskKilled) {
      return;
    }
    Queue<String> queue = FAILED.get(stage.tag());
    if (queue != null) {
      while (queue.size() >= KEPT_MAX) {
        queue.poll(); // The newest decide: what failed first may have been made since.
      }
      String text = Base64.getEncoder().encodeToString(failed.toErrorString().getBytes(StandardCharsets.UTF_8));
      String type = stage.isBroadcast() ? BROADCAST : end.taskType();
      queue.add(end.taskInfo().index() + "\t" + type + "\t" + stage.tasks() + "\t" + text);
    }
  }

  /** All failed tasks of an attempt so far, one per line: index in its stage, type, tasks of the stage, error in Base64. Then they are forgotten. */
  public static String take(String tag) {
    Queue<String> queue = FAILED.remove(tag);
    STAGES.values().removeIf(stage -> stage.tag().equals(tag));
    return queue == null ? "" : String.join("\n", queue);
  }

  private record Stage(String tag, int tasks, boolean isBroadcast) {}
}
