// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

import org.apache.spark.SparkEnv;
import org.apache.spark.util.Utils$;

import com.fasterxml.jackson.databind.ObjectMapper;

/**
 * Says in the local folders of this JVM whose they are. A JVM that is killed leaves them behind, and nobody could tell them from those of one that lives.
 *
 * <p>The marker names the process as the journal names an owner: host, boot, process namespace, id and start time. It is written once for each application.
 */
public final class LocalFolders {
  public static final String MARKER = "_rekindle.json";

  private static final Path PROC = Path.of("/proc");
  private static volatile String marked = "";

  private LocalFolders() {}

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
        try {
          byte[] body = new ObjectMapper().writeValueAsBytes(owner(application, env.conf().getBoolean("spark.shuffle.service.enabled", false)));
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
    String stat = Files.readString(PROC.resolve("self/stat"));
    String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
    return Map.of(
        "application", application,
        "is_served", isServed,
        "host", Files.readString(PROC.resolve("sys/kernel/hostname"), StandardCharsets.UTF_8).strip(),
        "pid", ProcessHandle.current().pid(),
        "boot", Files.readString(PROC.resolve("sys/kernel/random/boot_id")).strip(),
        "namespace", Files.readSymbolicLink(PROC.resolve("self/ns/pid")).toString(),
        "started", Long.parseLong(fields[19]));
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
