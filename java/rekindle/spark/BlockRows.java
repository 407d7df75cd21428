// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.mapreduce.Job;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.storage.BlockResult;
import org.apache.spark.storage.RDDBlockId;

import scala.Function1;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * Blocks of a kept result as a format of files, so that Spark plans and numbers them like files: buckets, one partition for each, preferred places. A block that
 * is gone is an error that names it.
 */
public final class BlockRows implements FileFormat, Serializable {
  private static final long serialVersionUID = 1L;

  @Override
  public Option<StructType> inferSchema(SparkSession session, Map<String, String> options, Seq<FileStatus> files) {
    throw new UnsupportedOperationException("the journal knows the schema of a kept result");
  }

  @Override
  public OutputWriterFactory prepareWrite(SparkSession session, Job job, Map<String, String> options, StructType schema) {
    throw new UnsupportedOperationException("blocks are written by KeptBlocks");
  }

  @Override
  public Function1<PartitionedFile, Iterator<InternalRow>> buildReaderWithPartitionValues(
      SparkSession session,
      StructType dataSchema,
      StructType partitionSchema,
      StructType requiredSchema,
      Seq<Filter> filters,
      Map<String, String> options,
      Configuration configuration) {
    return new Reader(dataSchema, requiredSchema);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof BlockRows;
  }

  @Override
  public int hashCode() {
    return BlockRows.class.hashCode();
  }

  @Override
  public String toString() {
    return "Blocks";
  }

  private static final class Reader extends AbstractFunction1<PartitionedFile, Iterator<InternalRow>> implements Serializable {
    private static final long serialVersionUID = 1L;
    private final StructType stored;
    private final StructType wanted;

    Reader(StructType stored, StructType wanted) {
      this.stored = stored;
      this.wanted = wanted;
    }

    @Override
    public Iterator<InternalRow> apply(PartitionedFile file) {
      Iterator<InternalRow> rows = RowChunks.rows(chunks(file.toPath().toString()), stored.size());
      return Arrays.equals(wanted.fieldNames(), stored.fieldNames()) ? rows : rows.map(projection()::apply);
    }

    private static Iterator<Object> chunks(String path) {
      RDDBlockId block = KeptBlocks.block(path);
      Option<BlockResult> found;
      try {
        found = SparkEnv.get().blockManager().get(block, KeptBlocks.BYTES);
      } catch (Exception e) { // Also what Scala throws without saying so: all places of a block failed.
        throw gone(block, path, e);
      }
      if (found.isEmpty()) {
        throw gone(block, path, null);
      }
      return found.get().data();
    }

    private static RuntimeException gone(RDDBlockId block, String path, Throwable cause) {
      return new java.util.NoSuchElementException("Block " + block + " was not found: " + path, cause);
    }

    private UnsafeProjection projection() {
      List<Expression> columns = new ArrayList<>();
      for (StructField field : wanted.fields()) {
        int at = stored.fieldIndex(field.name());
        columns.add(new BoundReference(at, stored.apply(at).dataType(), stored.apply(at).nullable()));
      }
      return UnsafeProjection.create(CollectionConverters.asScala(columns).toSeq());
    }
  }
}
