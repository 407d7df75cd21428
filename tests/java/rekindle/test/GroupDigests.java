// SPDX-License-Identifier: Apache-2.0
package rekindle.test;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;

import rekindle.spark.RowDigest;

/**
 * The product's digests of many small sets of rows in one Spark job. Behind the columns of `schema` a row carries the number of its set (a long)
 * and how often it is there (an int); neither is part of the digest. The rows of a set lie in one partition of the RDD.
 */
public final class GroupDigests {
  private GroupDigests() {}

  /** One line per set: its number, a tab, its digest. */
  public static String of(RDD<InternalRow> rows, StructType schema) {
    FlatMapFunction<Iterator<InternalRow>, String> one = found -> lines(found, schema);
    return String.join("\n", rows.toJavaRDD().mapPartitions(one).collect());
  }

  private static Iterator<String> lines(Iterator<InternalRow> rows, StructType schema) {
    int columns = schema.length();
    Map<Long, RowDigest> sets = new TreeMap<>();
    while (rows.hasNext()) {
      InternalRow row = rows.next();
      RowDigest digest = sets.computeIfAbsent(row.getLong(columns), number -> new RowDigest(schema));
      for (int left = row.getInt(columns + 1); left > 0; left--) {
        digest.add(row);
      }
    }
    List<String> lines = new ArrayList<>();
    sets.forEach((number, digest) -> lines.add(number + "\t" + digest.packed()));
    return lines.iterator();
  }
}
