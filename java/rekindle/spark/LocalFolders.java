// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

import org.apache.hadoop.fs.FileUtil;
import org.apache.spark.SparkEnv;
import org.apache.spark.util.Utils$;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

/**
 * Says in the local folders of this JVM whose they are. A JVM that is killed leaves them behind, and nobody could tell them from those of one that lives.
 *
 * <p>The marker names the process as the journal names an owner: host, boot, process namespace, id and start time. It is written once for each application.
 * Who still runs on that host removes what the killed ones left.
 */
public final class LocalFolders {
  public static final String MARKER = "_rekindle.json";

  private static final Path PROC = Path.of("/proc");
  private static final String BLOCKS = "blockmgr-";
  private static final List<String> SPARKS = List.of(BLOCKS, "spark-", "executor-");
  private static final int DEPTH_MAX = 3;
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Logger LOG = LoggerFactory.getLogger(LocalFolders.class);
  private static volatile String marked = "";

  private LocalFolders() {}

  /**
   * Remove the blocks of JVMs that were killed, from the folders that this JVM shares with them: those with our marker, whose process is certainly gone as
   * seen from here, and which no shuffle service may hand out. Spark keeps them until the application ends. What cannot be read stays.
   */
  static void removeDead() {
    SparkEnv env = SparkEnv.get();
    if (env == null) {
      return;
    }
    try {
      JsonNode here = JSON.valueToTree(owner("", false));
      for (File own : env.blockManager().diskBlockManager().localDirs()) {
        Path root = own.toPath().toAbsolutePath().getParent();
        for (int level = 1; level < DEPTH_MAX && isSparks(root); level++) {
          root = root.getParent();
        }
        removeDead(root, 1, here);
      }
    } catch (IOException | RuntimeException e) {
      return; // Nothing is known of others here.
    }
  }

  private static void removeDead(Path folder, int level, JsonNode here) throws IOException {
    List<Path> found;
    try (Stream<Path> below = Files.list(folder)) {
      found = below.filter(LocalFolders::isSparks).filter(one -> Files.isDirectory(one, LinkOption.NOFOLLOW_LINKS)).toList();
    }
    for (Path one : found) {
      if (one.getFileName().toString().startsWith(BLOCKS)) {
        if (isDead(one.resolve(MARKER), here)) {
          LOG.warn("rekindle: {} is removed: the process that its blocks belonged to was killed", one);
          FileUtil.fullyDelete(one.toFile());
        }
      } else if (level < DEPTH_MAX) {
        removeDead(one, level + 1, here);
      }
    }
  }

  private static boolean isSparks(Path folder) {
    Path name = folder == null ? null : folder.getFileName();
    return name != null && SPARKS.stream().anyMatch(name.toString()::startsWith);
  }

  private static boolean isDead(Path marker, JsonNode here) {
    try {
      JsonNode owner = JSON.readTree(Files.readAllBytes(marker));
      for (String field : List.of("host", "boot", "namespace")) {
        if (!here.path(field).isTextual() || !here.path(field).equals(owner.path(field))) {
          return false; // Its number means nothing here.
        }
      }
      Path stat = PROC.resolve(owner.path("pid").asText()).resolve("stat");
      boolean isGone = !Files.exists(PROC.resolve(owner.path("pid").asText())) || started(Files.readString(stat)) != owner.path("started").asLong();
      return isGone && owner.path("pid").isIntegralNumber() && owner.path("started").asLong() > 0 && !owner.path("is_served").asBoolean(true);
    } catch (IOException | RuntimeException e) {
      return false;
    }
  }

  private static long started(String stat) {
    return Long.parseLong(stat.substring(stat.lastIndexOf(')') + 2).split(" ")[19]);
  }

  /** Mark the folders of this driver or executor, if that has not been done. What cannot be marked is never taken for ours. */
  public static void mark() {
    SparkEnv env = SparkEnv.get();
    if (env == null || env.conf().getAppId().equals(marked)) {
      return;
    }
    synchronized (LocalFolders.class) {
      String application = env.conf().getAppId();
      if (!application.equals(marked)) {
        marked = application;
        ExecutorLease.begin();
        try {
          byte[] body = JSON.writeValueAsBytes(owner(application, env.conf().getBoolean("spark.shuffle.service.enabled", false)));
          for (File folder : folders(env)) {
            Files.write(folder.toPath().resolve(MARKER), body);
          }
        } catch (IOException | ReflectiveOperationException | RuntimeException e) {
          return; // No marker, no claim.
        }
      }
    }
  }

  private static Map<String, Object> owner(String application, boolean isServed) throws IOException {
    return Map.of(
        "application", application,
        "is_served", isServed,
        "host", Files.readString(PROC.resolve("sys/kernel/hostname"), StandardCharsets.UTF_8).strip(),
        "pid", ProcessHandle.current().pid(),
        "boot", Files.readString(PROC.resolve("sys/kernel/random/boot_id")).strip(),
        "namespace", Files.readSymbolicLink(PROC.resolve("self/ns/pid")).toString(),
        "started", started(Files.readString(PROC.resolve("self/stat"))));
  }

  /** Where blocks are, and where this JVM keeps temporary files. */
  private static List<File> folders(SparkEnv env) throws ReflectiveOperationException {
    List<File> found = new ArrayList<>(List.of(env.blockManager().diskBlockManager().localDirs()));
    for (Method method : Utils$.class.getMethods()) { // The type of its argument is not the same in every version.
      if (method.getName().equals("getOrCreateLocalRootDirs") && method.getParameterCount() == 1) {
        for (String root : (String[]) method.invoke(Utils$.MODULE$, env.conf())) {
          found.add(new File(root));
        }
      }
    }
    return found;
  }
}
