// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.hadoop.fs.Path;

/** Targets whose next batch waits, until they are let go or the query is stopped. Nothing is computed meanwhile. */
public final class StreamHolds {
  private static final long LOOK_MS = 100;
  private static final Set<String> HELD = ConcurrentHashMap.newKeySet();

  private StreamHolds() {}

  public static void hold(String target, boolean isHeld) {
    String key = new Path(target).toString();
    if (isHeld) {
      HELD.add(key);
    } else {
      HELD.remove(key);
    }
  }

  static void await(Path target) throws InterruptedException {
    while (HELD.contains(target.toString())) {
      Thread.sleep(LOOK_MS);
    }
  }
}
