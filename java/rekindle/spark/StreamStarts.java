// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.lang.reflect.Constructor;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

import scala.Option;
import scala.Product;

/**
 * Where the streams of a plan begin to read. Rules:
 * 1. Positions are asked of the source itself, with the options that its reader has: nobody else knows its partitions.
 * 2. A plan that is to begin elsewhere gets positions, and no word that a source could read in another way when it starts.
 * 3. A leaf whose options are replaced has no older form any more: Spark fails where it would read that one, with the old options.
 */
public final class StreamStarts {
  private static final String STARTING = "starting";
  private static final String OFFSETS = "startingOffsets";
  private static final String ASSIGN = "assign";
  private static final Set<String> CHOSEN = Set.of(ASSIGN, "subscribe", "subscribepattern");
  private static final String USER_NAME = ".UserProvided";

  private StreamStarts() {}

  /**
   * The offsets at which a stream of a plan, by its number, begins with these options in place of its own about where to start, as JSON. The source notes them
   * in `folder`, which is new.
   */
  public static String asked(SparkSession session, QueryExecution execution, int number, Map<String, String> starting, String folder) {
    StreamingRelationV2 leaf = (StreamingRelationV2) StreamReplay.streams(execution.analyzed()).stream().toList().get(number);
    SparkSession active = SparkObjects.activeSession();
    ClassLoader loader = Thread.currentThread().getContextClassLoader();
    Thread.currentThread().setContextClassLoader(loaderOf(leaf.table().getClass()));
    SparkObjects.setActiveSession(session);
    MicroBatchStream stream = null;
    try {
      stream = ((SupportsRead) leaf.table()).newScanBuilder(options(leaf, starting)).build().toMicroBatchStream(folder);
      return stream.initialOffset().json();
    } finally {
      if (stream != null) {
        stream.stop();
      }
      SparkObjects.setActiveSession(active);
      Thread.currentThread().setContextClassLoader(loader);
    }
  }

  /** The loader that knows a source and us: what Spark was started with is known to that of a jar which was added later, and not the other way round. */
  private static ClassLoader loaderOf(Class<?> source) {
    ClassLoader ours = StreamStarts.class.getClassLoader();
    for (ClassLoader one = source.getClassLoader(); one != null; one = one.getParent()) {
      if (one == ours) {
        return source.getClassLoader();
      }
    }
    return ours;
  }

  /** The plan whose streams begin at these offsets, in their order; an empty text leaves its stream alone. */
  public static Dataset<Row> begun(SparkSession session, QueryExecution execution, List<String> offsets) {
    Map<LogicalPlan, LogicalPlan> instead = new HashMap<>();
    int number = 0;
    for (LogicalPlan leaf : StreamReplay.streams(execution.analyzed())) {
      String given = offsets.get(number++);
      if (!given.isEmpty()) {
        instead.put(leaf, begun((StreamingRelationV2) leaf, given));
      }
    }
    return Dataset.ofRows(session, StreamReplay.replaced(execution.analyzed(), instead));
  }

  /** The plan whose streams read these partitions of their topics, in their order; an empty text leaves its stream alone. What a stream is called stays. */
  public static Dataset<Row> assigned(SparkSession session, QueryExecution execution, List<String> partitions) {
    Map<LogicalPlan, LogicalPlan> instead = new HashMap<>();
    int number = 0;
    for (LogicalPlan leaf : StreamReplay.streams(execution.analyzed())) {
      String given = partitions.get(number++);
      if (!given.isEmpty()) {
        StreamingRelationV2 was = (StreamingRelationV2) leaf;
        Map<String, String> told = new HashMap<>(was.extraOptions().asCaseSensitiveMap());
        told.keySet().removeIf(name -> CHOSEN.contains(name.toLowerCase(Locale.ROOT)));
        told.put(ASSIGN, given);
        told.put(StreamQueries.CALLED, StreamQueries.stream(leaf));
        instead.put(leaf, with(was, new CaseInsensitiveStringMap(told)));
      }
    }
    return Dataset.ofRows(session, StreamReplay.replaced(execution.analyzed(), instead));
  }

  /** The name that the user gave a stream; empty where it has none, or where this Spark has no names. */
  static String nameOf(LogicalPlan leaf) {
    for (int i = 0; i < leaf.productArity(); i++) {
      if (leaf.productElement(i) instanceof Product part && part.getClass().getName().endsWith(USER_NAME)) {
        return (String) part.productElement(0);
      }
    }
    return "";
  }

  private static LogicalPlan begun(StreamingRelationV2 was, String offsets) {
    return with(was, options(was, Map.of(OFFSETS, offsets)));
  }

  /** With all that the leaf has but these two: what else there is differs between releases of Spark. */
  private static LogicalPlan with(StreamingRelationV2 was, CaseInsensitiveStringMap options) {
    Object[] parts = new Object[was.productArity()];
    for (int i = 0; i < parts.length; i++) {
      Object part = was.productElement(i);
      boolean isOlder = "v1Relation".equals(SparkLine.argument(was, i));
      parts[i] = part instanceof CaseInsensitiveStringMap ? options : isOlder ? Option.empty() : part;
    }
    try {
      for (Constructor<?> one : StreamingRelationV2.class.getConstructors()) {
        if (one.getParameterCount() == parts.length) {
          return (LogicalPlan) one.newInstance(parts);
        }
      }
    } catch (ReflectiveOperationException unknown) {
      throw new IllegalStateException("this Spark does not let a stream begin elsewhere", unknown);
    }
    throw new IllegalStateException("this Spark does not let a stream begin elsewhere");
  }

  private static CaseInsensitiveStringMap options(StreamingRelationV2 leaf, Map<String, String> starting) {
    Map<String, String> told = new HashMap<>(starting);
    leaf.extraOptions().asCaseSensitiveMap().forEach((name, value) -> {
      if (!name.toLowerCase(Locale.ROOT).startsWith(STARTING)) {
        told.put(name, value);
      }
    });
    return new CaseInsensitiveStringMap(told);
  }
}
