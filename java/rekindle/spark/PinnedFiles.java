// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.NoopCache$;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.PartitionPath;
import org.apache.spark.sql.execution.datasources.PartitionSpec;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

import com.fasterxml.jackson.databind.JsonNode;

import scala.Option;
import scala.collection.immutable.Seq;

/**
 * The files of a batch input of a stream, as they were pinned: nothing is listed, and what was added later is not read. Each batch asks for them anew, and
 * then they are looked at again, once: a batch over files that are not what was pinned fails before it reads them.
 *
 * <p>After a newer input was taken by name, a batch that had been planned before still reads the earlier one: it may have been computed already.
 */
final class PinnedFiles extends PartitioningAwareFileIndex {
  static final String ZONE = "UTC";
  private static final String BATCH = "streaming.sql.batchId";

  final String step;
  private final SparkSession session;
  private final List<Path> roots;
  private final PinnedList now;
  private final PinnedList earlier;
  private final long until;

  /** Batches up to `until` read `earlier`, which is null where there is none. */
  PinnedFiles(SparkSession session, String step, Seq<Path> roots, PinnedList now, PinnedList earlier, long until) {
    super(session, SparkLine.immutable(Map.of()), Option.empty(), NoopCache$.MODULE$);
    this.session = session;
    this.step = step;
    this.roots = scala.jdk.javaapi.CollectionConverters.asJava(roots);
    this.now = now;
    this.earlier = earlier;
    this.until = until;
  }

  /** One list of files: those of each directory have the same values of partition columns. */
  static final class PinnedList {
    private final PartitionSpec partitions;
    private final scala.collection.immutable.Map<Path, FileStatus[]> directories;
    private final List<FileStatus> files = new ArrayList<>();
    private final SourceFiles looked;
    private String lookedFor;

    PinnedList(JsonNode leaf, StructType columns, Configuration configuration) {
      List<PartitionPath> found = new ArrayList<>();
      Map<Path, FileStatus[]> children = new LinkedHashMap<>();
      for (JsonNode directory : leaf.get("directories")) {
        Object[] values = new Object[columns.size()];
        for (int i = 0; i < values.length; i++) {
          JsonNode value = directory.get("values").get(i);
          values[i] = value.isNull() ? null : value(value.asText(), columns.fields()[i].dataType());
        }
        List<FileStatus> its = new ArrayList<>();
        for (JsonNode file : directory.get("files")) {
          long length = file.get(1).asLong();
          its.add(new FileStatus(length, false, 1, Math.max(length, 1), file.get(2).asLong(), new Path(file.get(0).asText())));
        }
        // No place: files of one directory of values may lie in several.
        Path key = new Path("/" + children.size());
        children.put(key, its.toArray(new FileStatus[0]));
        files.addAll(its);
        found.add(new PartitionPath(new GenericInternalRow(values), key));
      }
      this.directories = SparkLine.immutable(children);
      this.partitions = columns.isEmpty() ? PartitionSpec.emptySpec() : new PartitionSpec(columns, SparkObjects.seq(found));
      this.looked = SourceFiles.of(files, configuration);
    }

    private static Object value(String text, DataType type) {
      Literal literal = new Literal(UTF8String.fromString(text), DataTypes.StringType);
      return new Cast(literal, type, Option.apply(ZONE), EvalMode.LEGACY()).eval(null);
    }

    private synchronized void look(String step, String batch) {
      if (batch != null && batch.equals(lookedFor)) {
        return;
      }
      String changed = changed(step);
      if (!changed.isEmpty()) {
        throw new PinnedInputChanged(step, changed);
      }
      lookedFor = batch;
    }

    private String changed(String step) {
      try {
        return looked.changed();
      } catch (IOException failed) {
        throw new UncheckedIOException("the input of " + step + " cannot be looked at: " + failed.getMessage(), failed);
      }
    }
  }

  /** One line for each file that a batch from now on may read, and that is not what it was: its path, what is different; by a tab. */
  List<String> changed() {
    List<String> lines = new ArrayList<>(now.changed(step).lines().toList());
    if (earlier != null) {
      earlier.changed(step).lines().filter(line -> !lines.contains(line)).forEach(lines::add);
    }
    return lines;
  }

  /** The batch that is planned; null outside of one. */
  private String batch() {
    return session.sparkContext().getLocalProperty(BATCH);
  }

  private PinnedList chosen() {
    String batch = batch();
    return earlier != null && batch != null && Long.parseLong(batch) <= until ? earlier : now;
  }

  @Override
  public Seq<PartitionDirectory> listFiles(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
    chosen().look(step, batch());
    return super.listFiles(partitionFilters, dataFilters);
  }

  @Override
  public PartitionSpec partitionSpec() {
    return chosen().partitions;
  }

  @Override
  public Seq<FileStatus> allFiles() {
    return SparkObjects.seq(chosen().files);
  }

  @Override
  public scala.collection.mutable.LinkedHashMap<Path, FileStatus> leafFiles() {
    scala.collection.mutable.LinkedHashMap<Path, FileStatus> all = new scala.collection.mutable.LinkedHashMap<>();
    chosen().files.forEach(file -> all.put(file.getPath(), file));
    return all;
  }

  @Override
  public scala.collection.immutable.Map<Path, FileStatus[]> leafDirToChildrenFiles() {
    return chosen().directories;
  }

  @Override
  public Seq<Path> rootPaths() {
    return SparkObjects.seq(roots);
  }

  @Override
  public void refresh() {
    // What was pinned stays.
  }

  @Override
  public boolean equals(Object other) {
    return this == other;
  }

  @Override
  public int hashCode() {
    return System.identityHashCode(this);
  }
}
