// SPDX-License-Identifier: Apache-2.0
package rekindle.test;

import java.io.IOException;
import java.lang.reflect.Method;
import java.util.Arrays;

import org.apache.spark.SparkConf;
import org.apache.spark.TaskContext;
import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.scheduler.MapStatus$;
import org.apache.spark.shuffle.ShuffleHandle;
import org.apache.spark.shuffle.ShuffleWriteMetricsReporter;
import org.apache.spark.shuffle.ShuffleWriter;
import org.apache.spark.shuffle.sort.SortShuffleManager;

import scala.Option;
import scala.Product2;
import scala.collection.Iterator;

/** A shuffle manager that is not Spark's own: it moves rows as Spark's does, and says the same checksum of every map output. */
public final class SameChecksums extends SortShuffleManager {
  public SameChecksums(SparkConf settings) {
    super(settings);
  }

  @Override
  public <K, V> ShuffleWriter<K, V> getWriter(ShuffleHandle handle, long map, TaskContext context, ShuffleWriteMetricsReporter metrics) {
    ShuffleWriter<K, V> inner = super.getWriter(handle, map, context, metrics);
    return new ShuffleWriter<K, V>() {
      @Override
      public void write(Iterator<Product2<K, V>> records) throws IOException {
        inner.write(records);
      }

      @Override
      public Option<MapStatus> stop(boolean isSuccess) {
        Option<MapStatus> made = inner.stop(isSuccess);
        return made.isEmpty() ? made : Option.apply(withChecksum(made.get(), inner.getPartitionLengths(), map));
      }

      @Override
      public long[] getPartitionLengths() {
        return inner.getPartitionLengths();
      }
    };
  }

  /** Spark has checksums since 4.1; before, there is nothing to say. */
  private static MapStatus withChecksum(MapStatus made, long[] lengths, long map) {
    Method apply = Arrays.stream(MapStatus$.class.getMethods()).filter(one -> one.getName().equals("apply")).findFirst().orElseThrow();
    try {
      return apply.getParameterCount() == 4 ? (MapStatus) apply.invoke(MapStatus$.MODULE$, made.location(), lengths, map, 1L) : made;
    } catch (ReflectiveOperationException unknown) {
      throw new IllegalStateException("this Spark makes a map status otherwise", unknown);
    }
  }
}
