// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.util.List;
import java.util.Map;

import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.catalog.BucketSpec;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Objects of Spark's own that Python needs made. Their constructors differ between versions of Spark: a compiler looks at them here. */
public final class SparkObjects {
  private SparkObjects() {}

  /** The session that is active in this thread, or null. */
  public static SparkSession activeSession() {
    Option<SparkSession> found = SparkSession.getActiveSession();
    return found.isDefined() ? found.get() : null;
  }

  /** Null: none is active. */
  public static void setActiveSession(SparkSession session) {
    if (session == null) {
      SparkSession.clearActiveSession();
    } else {
      SparkSession.setActiveSession(session);
    }
  }

  /** A schema that was written as JSON. */
  public static StructType schema(String json) {
    return (StructType) DataType.fromJson(json);
  }

  /** The name of the directory in which the rows of one value of a column lie, as Spark writes them. */
  public static String hiveDirectory(String column, String value) {
    return ExternalCatalogUtils.getPartitionPathString(column, value);
  }

  /** A logical plan, to be planned with the settings of this session. */
  public static Dataset<Row> frame(SparkSession session, LogicalPlan plan) {
    return Dataset.ofRows(session, plan);
  }

  /** Rows that an RDD makes. */
  public static Dataset<Row> frame(SparkSession session, RDD<InternalRow> rows, StructType schema) {
    return session.internalCreateDataFrame(rows, schema, false);
  }

  /**
   * Kept files as a frame, or kept blocks. With keys they are in Spark's own buckets. `cutBy` is the session whose settings say how files are cut into Spark
   * partitions.
   */
  public static Dataset<Row> scan(
      SparkSession session, SparkSession cutBy, CommittedFiles index, boolean isBlocks, StructType schema, Buckets buckets, Map<String, String> options) {
    Option<BucketSpec> spec = Option.apply(buckets.keys().isEmpty() ? null : new BucketSpec(buckets.count(), seq(buckets.keys()), seq(List.of())));
    FileFormat format = isBlocks ? new BlockRows() : new ParquetFileFormat();
    return session.baseRelationToDataFrame(
        new HadoopFsRelation(index, index.partitionSchema(), schema, spec, format, SparkLine.immutable(options), cutBy));
  }

  /** By which columns rows lie in how many files; no columns where they lie by none. */
  public record Buckets(List<String> keys, int count) {}

  static <T> Seq<T> seq(List<T> items) {
    return CollectionConverters.asScala(items).toSeq();
  }

  /** Whether a class of a package that Spark may have beside it is there. */
  public static boolean hasClass(String name) {
    try {
      Class.forName(name, false, Thread.currentThread().getContextClassLoader());
      return true;
    } catch (ClassNotFoundException e) {
      return false;
    }
  }
}
