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
 * Spark's Parquet, written by Spark's own writer, with a look at each row on its way there. What a task wrote is found by the commit protocol, in
 * the same thread. Reading is as ever.
 */
public final class DigestedParquet extends ParquetFileFormat {
  private static final long serialVersionUID = 1L;
  private static final ThreadLocal<RowDigest> WRITTEN = new ThreadLocal<>();

  @Override
  public OutputWriterFactory prepareWrite(SparkSession session, Job job, Map<String, String> options, StructType schema) {
    return new Factory(super.prepareWrite(session, job, options, schema));
  }

  /** The digest of the file that this thread closed last; empty if there is none. Then it is forgotten. */
  static String take() {
    RowDigest digest = WRITTEN.get();
    WRITTEN.remove();
    return digest == null ? "" : digest.packed();
  }

  private static final class Factory extends OutputWriterFactory {
    private static final long serialVersionUID = 1L;
    private final OutputWriterFactory inner;

    Factory(OutputWriterFactory inner) {
      this.inner = inner;
    }

    @Override
    public String getFileExtension(TaskAttemptContext context) {
      return inner.getFileExtension(context);
    }

    @Override
    public OutputWriter newInstance(String path, StructType schema, TaskAttemptContext context) {
      return new Writer(inner.newInstance(path, schema, context), new RowDigest(schema));
    }
  }

  private static final class Writer extends OutputWriter {
    private final OutputWriter inner;
    private final RowDigest digest;

    Writer(OutputWriter inner, RowDigest digest) {
      this.inner = inner;
      this.digest = digest;
    }

    @Override
    public void write(InternalRow row) {
      inner.write(row);
      digest.add(row);
    }

    @Override
    public void close() {
      inner.close();
      WRITTEN.set(digest);
    }

    @Override
    public String path() {
      return inner.path();
    }
  }
}
