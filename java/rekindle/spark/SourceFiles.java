// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.spark.sql.execution.QueryExecution;

/**
 * The files that one plan reads from outside, as the listing has them that the plan was made with, to be looked at again. A look does not touch that
 * listing: whatever is added to a directory later is not read by this plan, and is no change. Files are compared by length and modification time, and
 * by the tag of an object store from the first look on: a listing of Spark's has none.
 */
public final class SourceFiles {
  /** So many files of one directory are asked for one by one; of more the directory is listed. */
  private static final int ASKED_MAX = 8;

  private static final long MILLIS = 1000;

  private final Map<Path, Map<String, FileStatus>> directories = new TreeMap<>();
  private final Map<Path, Configuration> configurations = new HashMap<>();
  private final Map<Path, String> tags = new HashMap<>();
  private int files;

  private SourceFiles() {}

  /** Of a plan; null where it reads no files from outside. */
  public static SourceFiles of(QueryExecution execution) {
    SourceFiles found = new SourceFiles();
    Sources.eachFile(execution, found::add);
    return found.directories.isEmpty() ? null : found;
  }

  /** Of a list that was made before. */
  static SourceFiles of(List<FileStatus> list, Configuration configuration) {
    SourceFiles found = new SourceFiles();
    list.forEach(file -> found.add(file, configuration));
    return found;
  }

  private void add(FileStatus file, Configuration configuration) {
    Path directory = file.getPath().getParent();
    if (directories.computeIfAbsent(directory, key -> new HashMap<>()).put(file.getPath().getName(), file) == null) {
      files++;
    }
    configurations.putIfAbsent(directory, configuration);
  }

  public int files() {
    return files;
  }

  /** One line for each file that is not what it was: its path, what is different; by a tab. */
  public synchronized String changed() throws IOException {
    List<String> lines = new ArrayList<>();
    for (Map.Entry<Path, Map<String, FileStatus>> entry : directories.entrySet()) {
      Map<String, FileStatus> wanted = entry.getValue();
      Map<String, FileStatus> now = look(entry.getKey(), wanted.keySet());
      for (Map.Entry<String, FileStatus> file : wanted.entrySet()) {
        String difference = difference(file.getValue(), now.get(file.getKey()));
        if (difference != null) {
          lines.add(file.getValue().getPath() + "\t" + difference);
        }
      }
    }
    lines.sort(null);
    return String.join("\n", lines);
  }

  private Map<String, FileStatus> look(Path directory, Set<String> names) throws IOException {
    FileSystem store = directory.getFileSystem(configurations.get(directory));
    Map<String, FileStatus> found = new HashMap<>();
    try {
      if (names.size() <= ASKED_MAX) {
        for (String name : names) {
          ask(store, new Path(directory, name), found);
        }
      } else {
        RemoteIterator<FileStatus> listed = store.listStatusIterator(directory);
        while (listed.hasNext()) {
          FileStatus one = listed.next();
          if (names.contains(one.getPath().getName())) {
            found.put(one.getPath().getName(), one);
          }
        }
      }
    } catch (FileNotFoundException e) {
      // The directory is gone, and all its files with it.
    }
    return found;
  }

  private static void ask(FileSystem store, Path path, Map<String, FileStatus> found) throws IOException {
    try {
      found.put(path.getName(), store.getFileStatus(path));
    } catch (FileNotFoundException e) {
      // It is not among those that were found.
    }
  }

  /** Some stores tell whole seconds when they are asked for one object, and milliseconds when they list. */
  private static boolean isSameTime(long one, long other) {
    if (one == 0) {
      return true; // The path of a published file is never used again (VersionFiles).
    }
    boolean isWhole = one % MILLIS == 0 || other % MILLIS == 0;
    return isWhole ? one / MILLIS == other / MILLIS : one == other;
  }

  private String difference(FileStatus was, FileStatus now) {
    if (now == null) {
      return "is gone";
    }
    if (now.getLen() != was.getLen()) {
      return "had " + was.getLen() + " bytes and has " + now.getLen();
    }
    if (!isSameTime(was.getModificationTime(), now.getModificationTime())) {
      return "was written again";
    }
    if (now instanceof EtagSource tagged && tagged.getEtag() != null) {
      String before = tags.putIfAbsent(was.getPath(), tagged.getEtag());
      return before == null || before.equals(tagged.getEtag()) ? null : "was written again";
    }
    return null;
  }
}
