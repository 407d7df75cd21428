// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.OutputWriter;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.StructType;

import scala.collection.immutable.Map;

/**
 * Spark's Parquet, written by Spark's own writer, which counts the rows it gets and may look at each for a digest. What a task wrote is found by the commit
 * protocol, in the same thread. Reading is as ever.
 */
public final class KeptParquet extends ParquetFileFormat {
  private static final long serialVersionUID = 1L;
  private static final ThreadLocal<Written> WRITTEN = new ThreadLocal<>();
  private static final Written NOTHING = new Written(0, "");

  private final boolean isDigested;

  public KeptParquet(boolean isDigested) {
    this.isDigested = isDigested;
  }

  /** How many rows one file has, and their digest; empty if none was made. */
  record Written(long rows, String digest) {}

  @Override
  public OutputWriterFactory prepareWrite(SparkSession session, Job job, Map<String, String> options, StructType schema) {
    return new Factory(super.prepareWrite(session, job, options, schema), isDigested);
  }

  /** What is in the file that this thread closed last. Then it is forgotten. */
  static Written take() {
    Written written = WRITTEN.get();
    WRITTEN.remove();
    return written == null ? NOTHING : written;
  }

  private static final class Factory extends OutputWriterFactory {
    private static final long serialVersionUID = 1L;
    private final OutputWriterFactory inner;
    private final boolean isDigested;

    Factory(OutputWriterFactory inner, boolean isDigested) {
      this.inner = inner;
      this.isDigested = isDigested;
    }

    @Override
    public String getFileExtension(TaskAttemptContext context) {
      return inner.getFileExtension(context);
    }

    @Override
    public OutputWriter newInstance(String path, StructType schema, TaskAttemptContext context) {
      return new Writer(inner.newInstance(path, schema, context), isDigested ? new RowDigest(schema) : null);
    }
  }

  static final class Writer extends OutputWriter {
    private final OutputWriter inner;
    private final RowDigest digest;
    private long rows;

    /** `digest` is null where none is wanted. */
    Writer(OutputWriter inner, RowDigest digest) {
      this.inner = inner;
      this.digest = digest;
    }

    @Override
    public void write(InternalRow row) {
      inner.write(row);
      rows++;
      if (digest != null) {
        digest.add(row);
      }
    }

    @Override
    public void close() {
      inner.close();
      WRITTEN.set(new Written(rows, digest == null ? "" : digest.packed()));
    }

    @Override
    public String path() {
      return inner.path();
    }
  }
}
