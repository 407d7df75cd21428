// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.UUID;
import java.util.stream.Stream;

import org.apache.hadoop.conf.Configuration;

/**
 * {@code current} of a stream's target on a disk, for readers that know no entries: a link to a folder in {@code views}, which has a hard link to each file that
 * counts. Rules:
 * 1. A batch is linked after its entry is there, under a name that is the same however often this is done. One that a compaction has is not linked.
 * 2. A compaction has a folder of its own, complete before {@code current} leads to it; that is changed by one rename. Batches that this driver commits
 *    meanwhile wait: each is in the new folder, too.
 * 3. Whoever links a batch looks again where {@code current} leads, until it was the same before and after.
 */
public final class StreamView {
  private static final Object LOCK = new Object();
  private static final String VIEWS = "views";
  private static final String SHOWN = ".shown";
  private static final String FIRST = "0000000000";
  private static final String DIRECTORY = "directory\t";
  private static final int HEAD_LINES = 3;
  private final Path root;
  private final StreamCompactions compactions;

  StreamView(org.apache.hadoop.fs.Path target, String region, String generation) {
    root = Path.of(target.toUri().getPath());
    compactions = new StreamCompactions(target, region, generation);
  }

  /** The files of a batch that counts. */
  void link(long batch, Configuration settings) throws IOException {
    synchronized (LOCK) {
      Path view;
      do {
        view = shown();
        if (compactions.through(settings) >= batch) {
          return;
        }
        linkInto(view, entries().resolve(Long.toString(batch)));
      } while (!shown().equals(view));
    }
  }

  /**
   * Lets {@code current} lead to a view that has everything up to a batch of each region and generation, with what was committed after that: {@code has} has a
   * line for each, by tabs. False where {@code current} is no link, which somebody else made, and where gc took the view for one that nobody shows any more.
   */
  public static boolean show(String target, String has, String name) throws IOException {
    org.apache.hadoop.fs.Path folder = new org.apache.hadoop.fs.Path(target);
    Path root = Path.of(folder.toUri().getPath());
    Path current = root.resolve("current");
    synchronized (LOCK) {
      Path view = root.resolve(VIEWS).resolve(name);
      for (String line : has.lines().toList()) {
        String[] told = line.split("\t");
        StreamView of = new StreamView(folder, told[0], told[1]);
        for (Path entry : of.after(Long.parseLong(told[2]))) {
          of.linkInto(view, entry);
        }
      }
      Path time = view.resolveSibling(name + SHOWN);
      if (Files.isDirectory(current, LinkOption.NOFOLLOW_LINKS) || !Files.exists(time)) {
        return false;
      }
      Files.writeString(time, name, StandardOpenOption.WRITE, StandardOpenOption.TRUNCATE_EXISTING);
      Path link = Files.createSymbolicLink(root.resolve(".current-" + UUID.randomUUID()), Path.of(VIEWS, name));
      Files.move(link, current, StandardCopyOption.ATOMIC_MOVE);
      return true;
    }
  }

  /** Lets {@code current} be there before the first batch. False where it is no link. */
  public static boolean begin(String target, String region, String generation) throws IOException {
    StreamView view = new StreamView(new org.apache.hadoop.fs.Path(target), region, generation);
    synchronized (LOCK) {
      Files.createDirectories(view.root);
      view.shown();
    }
    return Files.isSymbolicLink(view.root.resolve("current"));
  }

  private List<Path> after(long last) throws IOException {
    if (!Files.isDirectory(entries())) {
      return List.of();
    }
    try (Stream<Path> found = Files.list(entries())) {
      return found.filter(one -> one.getFileName().toString().chars().allMatch(Character::isDigit))
          .filter(one -> Long.parseLong(one.getFileName().toString()) > last)
          .toList();
    }
  }

  private Path entries() {
    return root.resolve("entries").resolve(compactions.region()).resolve(compactions.generation());
  }

  /** Where {@code current} leads. It is made where there is none. */
  private Path shown() throws IOException {
    Path current = root.resolve("current");
    if (Files.isDirectory(current, LinkOption.NOFOLLOW_LINKS)) {
      return current;
    }
    if (!Files.isSymbolicLink(current)) {
      String name = compactions.region() + "-" + compactions.generation() + "-" + FIRST;
      Path views = Files.createDirectories(root.resolve(VIEWS).resolve(name)).getParent();
      try {
        Files.createFile(views.resolve(name + SHOWN));
      } catch (FileAlreadyExistsException there) {
        // By a driver that died here.
      }
      try {
        Files.createSymbolicLink(current, Path.of(VIEWS, name));
      } catch (FileAlreadyExistsException there) {
        // By another driver.
      }
    }
    return root.resolve(Files.readSymbolicLink(current));
  }

  private void linkInto(Path view, Path entry) throws IOException {
    List<String> lines = Files.readAllLines(entry).stream().filter(line -> !line.isEmpty()).toList();
    Path directory = root.resolve(lines.get(HEAD_LINES - 1).substring(DIRECTORY.length()));
    for (String line : lines.subList(HEAD_LINES, lines.size())) {
      String name = line.substring(0, line.indexOf('\t'));
      try {
        Files.createLink(view.resolve(compactions.region() + "-" + compactions.generation() + "-" + entry.getFileName() + "-" + name), directory.resolve(name));
      } catch (FileAlreadyExistsException linked) {
        continue;
      }
    }
  }
}
