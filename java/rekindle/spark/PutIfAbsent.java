// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.IOException;
import java.nio.file.Files;
import java.util.UUID;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** A small object, put whole or not at all, and only where there is none: by a link on a disk, by a condition on S3. */
final class PutIfAbsent {
  private static final String CONDITIONAL = "fs.option.create.conditional.overwrite";
  /** What S3A throws when the condition did not hold; its class is not on the path of a driver without S3. */
  private static final String CHANGED = "RemoteFileChangedException";

  private PutIfAbsent() {}

  /** Whether this store is one of those that can do it here. */
  static boolean isKnown(Path path, Configuration settings) {
    String scheme = scheme(path, settings);
    return "file".equals(scheme) || "s3a".equals(scheme);
  }

  /** Throws {@link FileAlreadyExistsException} where there is one already. */
  static void put(Path path, byte[] body, Configuration settings) throws IOException {
    if ("file".equals(scheme(path, settings))) {
      link(path, body);
    } else {
      conditionally(path, body, settings);
    }
  }

  private static String scheme(Path path, Configuration settings) {
    String own = path.toUri().getScheme();
    return own == null ? FileSystem.getDefaultUri(settings).getScheme() : own;
  }

  private static void link(Path path, byte[] body) throws IOException {
    java.nio.file.Path target = java.nio.file.Path.of(path.toUri().getPath());
    java.nio.file.Path made = target.resolveSibling("." + target.getFileName() + "." + UUID.randomUUID() + ".tmp");
    Files.createDirectories(target.getParent());
    Files.write(made, body);
    try {
      Files.createLink(target, made);
    } catch (java.nio.file.FileAlreadyExistsException taken) {
      throw new FileAlreadyExistsException(path.toString());
    } finally {
      Files.deleteIfExists(made);
    }
  }

  private static void conditionally(Path path, byte[] body, Configuration settings) throws IOException {
    FileSystem store = path.getFileSystem(settings);
    FSDataOutputStreamBuilder<?, ?> builder = store.createFile(path).overwrite(false).recursive();
    builder.must(CONDITIONAL, true);
    try (FSDataOutputStream out = (FSDataOutputStream) builder.build()) {
      out.write(body);
    } catch (IOException failed) {
      for (Throwable cause = failed; cause != null; cause = cause.getCause()) {
        if (cause.getClass().getName().endsWith(CHANGED) || cause instanceof FileAlreadyExistsException) {
          throw new FileAlreadyExistsException(path.toString());
        }
      }
      throw failed;
    }
  }
}
