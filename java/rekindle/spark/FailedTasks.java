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

import scala.collection.Iterator;

/**
 * Which tasks of an attempt failed, and whether they were its final ones. Spark's status store cannot tell: with adaptive execution each map
 * stage is the last one of a job of its own. The listener bus may drop events under load, so nothing here makes a partition count.
 */
public final class FailedTasks extends SparkListener {
  private static final String OURS = "rekindle-";
  private static final int KEPT_MAX = 64;
  private static final ConcurrentHashMap<Integer, String> TAGS = new ConcurrentHashMap<>();
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
        for (Iterator<Object> it = job.stageIds().iterator(); it.hasNext(); ) {
          TAGS.put((Integer) it.next(), tag);
        }
      }
    }
  }

  @Override
  public void onTaskEnd(SparkListenerTaskEnd end) {
    String tag = TAGS.get(end.stageId());
    if (tag == null || !(end.reason() instanceof TaskFailedReason failed) || end.reason() instanceof TaskKilled) {
      return;
    }
    Queue<String> queue = FAILED.get(tag);
    if (queue != null && queue.size() < KEPT_MAX) {
      String text = Base64.getEncoder().encodeToString(failed.toErrorString().getBytes(StandardCharsets.UTF_8));
      queue.add(end.taskInfo().index() + "\t" + end.taskType() + "\t" + text);
    }
  }

  /** All failed tasks of an attempt so far, one per line: index in its stage, type, error in Base64. Then they are forgotten. */
  public static String take(String tag) {
    Queue<String> queue = FAILED.remove(tag);
    TAGS.values().removeIf(tag::equals);
    return queue == null ? "" : String.join("\n", queue);
  }
}
