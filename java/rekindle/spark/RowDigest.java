// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.util.Collections;
import java.util.Iterator;
import java.util.List;

import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.api.java.function.Function2;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * The digest of a set of rows: their number, and two sums of 64-bit hashes. Equal for the same rows in any order; the digest of two sets together
 * is the sum of theirs. The schema is added once, at the end, so that no rows of one schema equal no rows of another.
 */
public final class RowDigest {
  public static final String UNREADABLE = "!";

  private final RowHash hash;
  private final String schema;
  private long count;
  private long first;
  private long second;

  public RowDigest(StructType schema) {
    this.hash = RowHash.of(schema);
    this.schema = Kinds.text(schema);
  }

  /** What a partition without rows has; empty if the schema holds a type without a canonical form, so that nothing of it can have a digest. */
  public static String ofNothing(DataType schema) {
    return Kinds.isKnown(schema) ? new RowDigest((StructType) schema).packed() : "";
  }

  /** The digest of several sets of rows of one schema together; empty if one of them has none. */
  static String sum(Iterable<String> packed, StructType schema) {
    RowDigest sum = new RowDigest(schema);
    sum.hash.hash(sum.schema);
    long a = sum.hash.first(), b = sum.hash.second();
    for (String one : packed) {
      if (one.isEmpty()) {
        return "";
      }
      sum.count += Long.parseUnsignedLong(one.substring(0, 16), 16);
      sum.first += Long.parseUnsignedLong(one.substring(16, 32), 16) - a;
      sum.second += Long.parseUnsignedLong(one.substring(32), 16) - b;
    }
    return sum.packed();
  }

  /** One line per partition of an RDD, in order: the digest of its rows. One Spark job. */
  public static String ofPartitions(RDD<InternalRow> rows, StructType schema) {
    Function2<Integer, Iterator<InternalRow>, Iterator<String>> one = (index, found) -> ofRows(found, schema);
    List<String> lines = rows.toJavaRDD().mapPartitionsWithIndex(one, true).collect();
    return String.join("\n", lines);
  }

  /**
   * The same, where a partition that cannot be read is a line with {@link #UNREADABLE} and why, and the others have their digests all the same. A task
   * that is told to end does.
   */
  public static String ofReadable(RDD<InternalRow> rows, StructType schema) {
    Function2<Integer, Iterator<InternalRow>, Iterator<String>> one = (index, found) -> {
      try {
        return ofRows(found, schema);
      } catch (TaskKilledException killed) {
        throw killed;
      } catch (Exception error) {
        if (TaskContext.get().isInterrupted()) {
          throw error;
        }
        return Collections.singleton(UNREADABLE + saidBy(error)).iterator();
      }
    };
    List<String> lines = rows.toJavaRDD().mapPartitionsWithIndex(one, true).collect();
    return String.join("\n", lines);
  }

  /** The innermost cause, in one line. */
  private static String saidBy(Throwable error) {
    Throwable cause = error;
    while (cause.getCause() != null && cause.getCause() != cause) {
      cause = cause.getCause();
    }
    return (cause.getClass().getSimpleName() + ": " + cause.getMessage()).replaceAll("\\s+", " ");
  }

  private static Iterator<String> ofRows(Iterator<InternalRow> rows, StructType schema) {
    RowDigest digest = new RowDigest(schema);
    while (rows.hasNext()) {
      digest.add(rows.next());
    }
    return Collections.singleton(digest.packed()).iterator();
  }

  public void add(InternalRow row) {
    hash.hash(row);
    count++;
    first += hash.first();
    second += hash.second();
  }

  /** Start again with no rows. */
  public void clear() {
    count = 0;
    first = 0;
    second = 0;
  }

  /** Number, first and second sum, as 48 hexadecimal digits. */
  public String packed() {
    hash.hash(schema);
    return String.format("%016x%016x%016x", count, first + hash.first(), second + hash.second());
  }
}
