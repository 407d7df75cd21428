// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.lang.reflect.Constructor;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.catalyst.catalog.BucketSpec;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.DataSource;

import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Files in Spark's buckets below a path. The writer of DataFrames makes them for tables of the catalog only. */
public final class BucketedFiles {
  private BucketedFiles() {}

  public static void write(Dataset<?> rows, List<String> partitionBy, int buckets, List<String> bucketBy, List<String> sortBy, Map<String, String> options)
      throws ReflectiveOperationException {
    SparkSession session = rows.sparkSession();
    Option<BucketSpec> spec = Option.apply(new BucketSpec(buckets, seq(bucketBy), seq(sortBy)));
    scala.collection.immutable.Map<String, String> told = SparkLine.immutable(options);
    LogicalPlan command = files(session, "parquet", seq(List.of()), Option.empty(), seq(partitionBy), spec, told).planForWriting(SaveMode.ErrorIfExists, rows.queryExecution().analyzed());
    Dataset.ofRows(session, command);
  }

  /** What newer versions of Spark ask for besides is left out: each is an option. */
  private static DataSource files(Object... first) throws ReflectiveOperationException {
    Constructor<?> made = DataSource.class.getConstructors()[0];
    Object[] given = Arrays.copyOf(first, made.getParameterCount());
    Arrays.fill(given, first.length, given.length, Option.empty());
    return (DataSource) made.newInstance(given);
  }

  /** `16 by customer sorted by day`; empty without buckets. */
  public static String told(Option<BucketSpec> spec) {
    if (spec.isEmpty()) {
      return "";
    }
    String by = String.join(", ", CollectionConverters.asJava(spec.get().bucketColumnNames()));
    String sorted = String.join(", ", CollectionConverters.asJava(spec.get().sortColumnNames()));
    return spec.get().numBuckets() + " by " + by + (sorted.isEmpty() ? "" : " sorted by " + sorted);
  }

  private static Seq<String> seq(List<String> names) {
    return CollectionConverters.asScala(names).toSeq();
  }
}
