// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;

import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * One request that lets S3 copy an object by itself, within a bucket: no byte passes through an executor. Hadoop's S3A has
 * this only inside a rename; its client and its request factory (encryption, storage class) are reached by name, because
 * the wheel does not ship S3A. Where that fails, or another store is meant, the answer is no, and the caller copies.
 */
final class ServerSideCopy {
  private static final String S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem";
  private static final long BYTES_MAX = 5L << 30; // S3 takes no more in one request.

  private ServerSideCopy() {}

  static boolean isDone(FileSystem from, Path source, long length, FileSystem to, Path target) throws IOException {
    if (from != to || length > BYTES_MAX || !from.getClass().getName().equals(S3A)) {
      return false;
    }
    try {
      Method internals = from.getClass().getMethod("getS3AInternals");
      Method metadata = internals.getReturnType().getMethod("getObjectMetadata", Path.class);
      Method client = internals.getReturnType().getMethod("getAmazonS3Client", String.class);
      Method factory = from.getClass().getMethod("getRequestFactory");
      Method key = from.getClass().getMethod("pathToKey", Path.class);
      Method request =
          factory
              .getReturnType()
              .getMethod("newCopyObjectRequestBuilder", String.class, String.class, metadata.getReturnType());
      Object head = metadata.invoke(internals.invoke(from), source);
      Object builder = request.invoke(factory.invoke(from), key.invoke(from, source), key.invoke(from, target), head);
      Object built = request.getReturnType().getMethod("build").invoke(builder);
      Method copy = client.getReturnType().getMethod("copyObject", built.getClass());
      copy.invoke(client.invoke(internals.invoke(from), "rekindle publishes"), built);
      return true;
    } catch (InvocationTargetException e) {
      if (e.getCause() instanceof FileNotFoundException) {
        throw (FileNotFoundException) e.getCause();
      }
      return false; // The store refused or did not answer; the plain copy will say why, if it must.
    } catch (ReflectiveOperationException e) {
      return false; // Another S3A than those we know.
    }
  }
}
