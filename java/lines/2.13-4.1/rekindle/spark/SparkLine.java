// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

import org.apache.parquet.column.ParquetProperties;
import org.apache.parquet.hadoop.ParquetFileWriter;
import org.apache.parquet.hadoop.ParquetWriter;
import org.apache.parquet.hadoop.util.HadoopOutputFile;
import org.apache.parquet.schema.MessageType;
import org.apache.spark.ShuffleStatus;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.sql.catalyst.catalog.SQLFunction;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CacheManager;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.TimeType;
import org.apache.spark.sql.types.VariantType;
import org.apache.spark.unsafe.types.VariantVal;

import scala.Product;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/** What Spark 4.1 and newer have otherwise than older Spark lines. Each line has a class of this name with the same methods. */
final class SparkLine {
  static final String NAME = "2.13-4.1";

  private SparkLine() {}

  /** A type of times of day: a number of nanoseconds. */
  static boolean isTime(DataType type) {
    return type instanceof TimeType;
  }

  static boolean isVariant(DataType type) {
    return type instanceof VariantType;
  }

  /** The two parts of a variant: its value, its metadata. */
  static byte[][] variant(SpecializedGetters from, int at) {
    VariantVal variant = from.getVariant(at);
    return new byte[][] {variant.getValue(), variant.getMetadata()};
  }

  /** A function that was written in SQL. */
  static boolean isSqlFunction(Object value) {
    return value instanceof SQLFunction;
  }

  /** Refuse all Spark jobs of a group from now on. */
  static void refuseJobs(SparkContext context, String group) {
    context.cancelJobGroupAndFutureJobs(group);
  }

  /** The checksum of a map output over its rows in any order; 0 if there is none. */
  static long checksum(MapStatus map) {
    return map.checksumValue();
  }

  /** The map tasks whose output came back with another checksum. */
  static long[] mismatched(ShuffleStatus status) {
    List<Long> found = new ArrayList<>();
    for (Iterator<Object> it = status.checksumMismatchIndices().iterator(); it.hasNext(); ) {
      found.add(((Number) it.next()).longValue());
    }
    return found.stream().mapToLong(Long::longValue).toArray();
  }

  static int shuffleId(ShuffleExchangeLike exchange) {
    return exchange.shuffleId();
  }

  /** A relation with the columns, table and stream of another one, over other files. */
  static LogicalPlan over(LogicalRelation was, HadoopFsRelation files) {
    return new LogicalRelation(files, was.output(), was.catalogTable(), was.isStreaming(), was.stream());
  }

  static boolean isCached(CacheManager cache, SparkSession session, LogicalPlan plan) {
    return cache.lookupCachedData(session, plan).isDefined();
  }

  /** The name that Spark gives to a column without an alias. */
  static String title(Expression expression) {
    return org.apache.spark.sql.catalyst.util.package$.MODULE$.toPrettySQL(expression, true);
  }

  /** The same sort within each partition. */
  static Sort within(Sort sort) {
    return sort.copy(sort.order(), false, sort.child(), sort.hint());
  }

  /** The name of an argument of a Scala case class. */
  static String argument(Product value, int index) {
    return value.productElementName(index);
  }

  static <K, V> scala.collection.immutable.Map<K, V> immutable(Map<K, V> values) {
    return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(values));
  }

  /** Write a Parquet file without rows. */
  static void empty(HadoopOutputFile out, MessageType schema, Map<String, String> metadata) throws IOException {
    try (ParquetFileWriter writer =
        new ParquetFileWriter(
            out,
            schema,
            ParquetFileWriter.Mode.OVERWRITE,
            ParquetWriter.DEFAULT_BLOCK_SIZE,
            ParquetWriter.MAX_PADDING_SIZE_DEFAULT,
            null,
            ParquetProperties.builder().build())) {
      writer.start();
      writer.end(metadata);
    }
  }
}
