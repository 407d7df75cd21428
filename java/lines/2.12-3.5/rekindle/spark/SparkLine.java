// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.IOException;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.parquet.column.ParquetProperties;
import org.apache.parquet.hadoop.ParquetFileWriter;
import org.apache.parquet.hadoop.ParquetWriter;
import org.apache.parquet.hadoop.util.HadoopOutputFile;
import org.apache.parquet.schema.MessageType;
import org.apache.spark.ShuffleStatus;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.sql.catalyst.ScalaReflection$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CacheManager;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike;
import org.apache.spark.sql.types.DataType;

import scala.Product;
import scala.jdk.javaapi.CollectionConverters;

/** What Spark 3.5 has otherwise than the newest Spark line. Each line has a class of this name with the same methods. */
final class SparkLine {
  static final String NAME = "2.12-3.5";
  private static final ConcurrentHashMap<Class<?>, List<String>> NAMES = new ConcurrentHashMap<>();
  private static final Map<SparkContext, Set<String>> REFUSED = new WeakHashMap<>();

  private SparkLine() {}

  /** This line has no type of times of day. */
  static boolean isTime(DataType type) {
    return false;
  }

  static boolean isVariant(DataType type) {
    return false;
  }

  static byte[][] variant(SpecializedGetters from, int at) {
    throw new UnsupportedOperationException("Spark 3.5 has no variants");
  }

  /** This line has no functions that are written in SQL. */
  static boolean isSqlFunction(Object value) {
    return false;
  }

  /**
   * Cancel each Spark job of a group when it has begun: this line cannot refuse one before. A short job may end first; whoever may not start one is told by
   * the number of jobs.
   */
  static synchronized void refuseJobs(SparkContext context, String group) {
    if (REFUSED.computeIfAbsent(context, unseen -> new HashSet<>()).add(group)) {
      context.addSparkListener(
          new SparkListener() {
            @Override
            public void onJobStart(SparkListenerJobStart started) {
              if (started.properties() != null && group.equals(started.properties().getProperty("spark.jobGroup.id"))) {
                context.cancelJobGroup(group);
              }
            }
          });
    }
  }

  /** This line makes no checksum over the rows of a map output: 0, as where one is not known. */
  static long checksum(MapStatus map) {
    return 0;
  }

  /** Nor does it note map tasks whose output came back otherwise: whoever asks goes by the map task that made it. */
  static long[] mismatched(ShuffleStatus status) {
    return new long[0];
  }

  /** -1, which no shuffle has, for an exchange that is not Spark's own. */
  static int shuffleId(ShuffleExchangeLike exchange) {
    return exchange instanceof ShuffleExchangeExec own ? own.shuffleDependency().shuffleId() : -1;
  }

  /** A relation with the columns, table and stream of another one, over other files. */
  static LogicalPlan over(LogicalRelation was, HadoopFsRelation files) {
    return new LogicalRelation(files, was.output(), was.catalogTable(), was.isStreaming());
  }

  static boolean isCached(CacheManager cache, SparkSession session, LogicalPlan plan) {
    return cache.lookupCachedData(plan).isDefined();
  }

  /** The name that Spark gives to a column without an alias. */
  static String title(Expression expression) {
    return org.apache.spark.sql.catalyst.util.package$.MODULE$.toPrettySQL(expression);
  }

  /** The same sort within each partition. */
  static Sort within(Sort sort) {
    return sort.copy(sort.order(), false, sort.child());
  }

  /** The name of an argument of a Scala case class. */
  static String argument(Product value, int index) {
    return NAMES.computeIfAbsent(value.getClass(), SparkLine::arguments).get(index);
  }

  /** Scala 2.12 does not give them to the class itself. Spark reads them so, too, where it makes JSON of a plan. */
  private static List<String> arguments(Class<?> type) {
    return List.copyOf(CollectionConverters.asJava(ScalaReflection$.MODULE$.getConstructorParameterNames(type)));
  }

  @SuppressWarnings("unchecked")
  static <K, V> scala.collection.immutable.Map<K, V> immutable(Map<K, V> values) {
    return scala.collection.immutable.Map$.MODULE$.apply(CollectionConverters.asScala(values).toSeq());
  }

  /** Write a Parquet file without rows. */
  static void empty(HadoopOutputFile out, MessageType schema, Map<String, String> metadata) throws IOException {
    ParquetFileWriter writer =
        new ParquetFileWriter(
            out,
            schema,
            ParquetFileWriter.Mode.OVERWRITE,
            ParquetWriter.DEFAULT_BLOCK_SIZE,
            ParquetWriter.MAX_PADDING_SIZE_DEFAULT,
            ParquetProperties.DEFAULT_COLUMN_INDEX_TRUNCATE_LENGTH,
            ParquetProperties.DEFAULT_STATISTICS_TRUNCATE_LENGTH,
            ParquetProperties.DEFAULT_PAGE_WRITE_CHECKSUM_ENABLED);
    writer.start();
    writer.end(metadata); // It closes the file, too.
  }
}
