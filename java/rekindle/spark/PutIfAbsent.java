// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.StandardOpenOption;
import java.util.Set;
import java.util.UUID;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;

/**
 * An object that is put whole or not at all, and only where there is none: by a link on a disk, by a condition on S3, by a rename that replaces nothing on
 * HDFS. What was not put when something failed is never put later. Other stores are refused: nobody has seen them do it.
 */
abstract class PutIfAbsent {
  private static final String DISK = "file";
  private static final String HDFS = "hdfs";
  private static final Set<String> PUT_BY = Set.of(DISK, HDFS, "s3a");
  private static final String CONDITIONAL = "fs.option.create.conditional.overwrite";
  /** What S3A throws when the condition did not hold; its class is not on the path of a driver without S3. */
  private static final String CHANGED = "RemoteFileChangedException";

  private PutIfAbsent() {}

  /** Where the content goes. */
  abstract OutputStream out();

  /** Throws {@link FileAlreadyExistsException} where there is one already. */
  abstract void put() throws IOException;

  /** Nothing is put. */
  abstract void abandon();

  static PutIfAbsent open(Path path, Configuration settings) throws IOException {
    refuseOthers(path, settings);
    return switch (scheme(path, settings)) {
      case DISK -> new OnDisk(path);
      case HDFS -> new OnHdfs(path, settings);
      default -> new OnS3(path, settings);
    };
  }

  static void put(Path path, byte[] body, Configuration settings) throws IOException {
    PutIfAbsent made = open(path, settings);
    try {
      made.out().write(body);
    } catch (IOException failed) {
      made.abandon();
      throw failed;
    }
    made.put();
  }

  static void refuseOthers(Path path, Configuration settings) {
    String scheme = scheme(path, settings);
    if (!PUT_BY.contains(scheme)) {
      throw new IllegalArgumentException(
          "a region cannot be fenced in " + scheme + ":, where nothing is known to be put only if it is absent: use a disk, s3a: or hdfs:");
    }
  }

  private static String scheme(Path path, Configuration settings) {
    String own = path.toUri().getScheme();
    return own == null ? FileSystem.getDefaultUri(settings).getScheme() : own;
  }

  private static final class OnDisk extends PutIfAbsent {
    private final Path path;
    private final java.nio.file.Path target;
    private final java.nio.file.Path made;
    private final FileOutputStream out;

    OnDisk(Path path) throws IOException {
      this.path = path;
      target = java.nio.file.Path.of(path.toUri().getPath());
      made = target.resolveSibling("." + target.getFileName() + "." + UUID.randomUUID() + ".tmp");
      Files.createDirectories(target.getParent());
      out = new FileOutputStream(made.toFile());
    }

    @Override
    OutputStream out() {
      return out;
    }

    @Override
    void put() throws IOException {
      try {
        out.getFD().sync();
        out.close();
        Files.createLink(target, made);
        try (FileChannel folder = FileChannel.open(target.getParent(), StandardOpenOption.READ)) {
          folder.force(true);
        }
      } catch (java.nio.file.FileAlreadyExistsException taken) {
        throw new FileAlreadyExistsException(path.toString());
      } finally {
        abandon();
      }
    }

    @Override
    void abandon() {
      try {
        out.close();
        Files.deleteIfExists(made);
      } catch (IOException failed) {
        // A name that nobody else has, and that no log reads.
      }
    }
  }

  /** The rename is one act of the namenode. One whose answer was lost finds no source once it was given up. */
  private static final class OnHdfs extends PutIfAbsent {
    private final Path path;
    private final Path made;
    private final DistributedFileSystem store;
    private final FSDataOutputStream out;

    OnHdfs(Path path, Configuration settings) throws IOException {
      this.path = path;
      made = new Path(path.getParent(), "." + path.getName() + "." + UUID.randomUUID() + ".tmp");
      store = (DistributedFileSystem) path.getFileSystem(settings);
      out = store.createFile(made).overwrite(false).recursive().syncBlock().build();
    }

    @Override
    OutputStream out() {
      return out;
    }

    @Override
    void put() throws IOException {
      try {
        out.close();
        store.rename(made, path, Options.Rename.NONE);
      } catch (IOException failed) {
        abandon();
        throw failed;
      }
    }

    @Override
    void abandon() {
      try (out) {
        store.delete(made, false);
      } catch (IOException failed) {
        // A name that nobody else has, and that no log reads.
      }
    }
  }

  private static final class OnS3 extends PutIfAbsent {
    private final Path path;
    private final FSDataOutputStream out;

    OnS3(Path path, Configuration settings) throws IOException {
      this.path = path;
      FSDataOutputStreamBuilder<?, ?> builder = path.getFileSystem(settings).createFile(path).overwrite(false).recursive();
      builder.must(CONDITIONAL, true);
      try {
        out = (FSDataOutputStream) builder.build();
      } catch (IOException failed) {
        throw meant(failed);
      }
    }

    @Override
    OutputStream out() {
      return out;
    }

    @Override
    void put() throws IOException {
      try {
        out.close();
      } catch (IOException failed) {
        throw meant(failed);
      }
    }

    @Override
    void abandon() {
      out.abort();
    }

    private IOException meant(IOException failed) {
      for (Throwable cause = failed; cause != null; cause = cause.getCause()) {
        if (cause.getClass().getName().endsWith(CHANGED) || cause instanceof FileAlreadyExistsException) {
          return new FileAlreadyExistsException(path.toString());
        }
      }
      return failed;
    }
  }
}
