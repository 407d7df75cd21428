// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.time.ZoneId;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.NoopCache$;
import org.apache.spark.sql.execution.datasources.PartitionPath;
import org.apache.spark.sql.execution.datasources.PartitionSpec;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.execution.datasources.PartitioningUtils;
import org.apache.spark.sql.execution.datasources.csv.CSVFileFormat;
import org.apache.spark.sql.execution.datasources.json.JsonFileFormat;
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

import scala.Option;
import scala.collection.immutable.Seq;

/**
 * The files of one published version as its pointer names them: each publication has a directory of its own, and nothing is listed. Whoever asks for one
 * of Hive's directories reads that one only, however many nights were published before. Path and length tell which bytes are read: a path of a published
 * file is never used again.
 */
public final class VersionFiles extends PartitioningAwareFileIndex {
  private final List<Path> roots = new ArrayList<>();
  private final Map<Path, FileStatus> files = new LinkedHashMap<>();
  private final scala.collection.immutable.Map<Path, FileStatus[]> directories;
  private final PartitionSpec partitions;

  /**
   * `folders`: a line for each directory of a publication. `names`: a line for each file, the number of its directory, its path below that, its length;
   * by tabs. `columns` are those of Hive's directories.
   */
  private VersionFiles(SparkSession session, String folders, String names, StructType columns) {
    super(session, SparkLine.immutable(Map.of()), Option.apply(columns), NoopCache$.MODULE$);
    folders.lines().forEach(folder -> roots.add(new Path(folder)));
    Map<String, List<FileStatus>> found = new LinkedHashMap<>();
    Map<String, String> below = new HashMap<>();
    names.lines().forEach(line -> {
      int first = line.indexOf('\t');
      int last = line.lastIndexOf('\t');
      String folder = roots.get(Integer.parseInt(line.substring(0, first))).toString();
      String name = line.substring(first + 1, last);
      long length = Long.parseLong(line.substring(last + 1));
      int slash = name.lastIndexOf('/');
      String place = slash < 0 ? "" : name.substring(0, slash);
      String directory = slash < 0 ? folder : folder + "/" + place;
      Path path = new Path(folder + "/" + name);
      FileStatus file = new FileStatus(length, false, 1, Math.max(length, 1), 0L, path);
      files.put(path, file);
      found.computeIfAbsent(directory, key -> new ArrayList<>()).add(file);
      below.putIfAbsent(directory, place);
    });
    Map<Path, FileStatus[]> children = new HashMap<>();
    Map<Path, String> places = new LinkedHashMap<>();
    found.forEach((directory, its) -> {
      Path path = new Path(directory);
      children.put(path, its.toArray(new FileStatus[0]));
      places.put(path, below.get(directory));
    });
    this.directories = SparkLine.immutable(children);
    this.partitions = columns.isEmpty() ? PartitionSpec.emptySpec() : spec(session, columns, places);
  }

  /** The format of the files, as Spark calls it, and the options of its reader. */
  public record Reading(String format, Map<String, String> options) {
    private FileFormat made() {
      return switch (format) {
        case "parquet" -> new ParquetFileFormat();
        case "csv" -> new CSVFileFormat();
        case "json" -> new JsonFileFormat();
        case "orc" -> new OrcFileFormat();
        default -> throw new IllegalArgumentException("no files of " + format + " are published");
      };
    }

    /** Whether a column of this type can be in such files. */
    public static boolean holds(String format, String type) {
      return new Reading(format, Map.of()).made().supportDataType(DataType.fromJson(type));
    }
  }

  /** A version as a frame. `columns`: a line for each column of Hive's directories, none where there are no such directories. */
  public static Dataset<Row> read(SparkSession session, String folders, String names, String schema, String columns, Reading how) {
    return session.baseRelationToDataFrame(relation(session, folders, names, schema, columns, how));
  }

  static HadoopFsRelation relation(SparkSession session, String folders, String names, String schema, String columns, Reading how) {
    List<String> last = columns.lines().toList();
    List<StructField> inFiles = new ArrayList<>();
    Map<String, StructField> inNames = new HashMap<>();
    for (StructField field : SparkObjects.schema(schema).asNullable().fields()) {
      if (last.contains(field.name())) {
        inNames.put(field.name(), field);
      } else {
        inFiles.add(field);
      }
    }
    StructType hive = new StructType(last.stream().map(inNames::get).toArray(StructField[]::new));
    StructType rest = new StructType(inFiles.toArray(StructField[]::new));
    VersionFiles index = new VersionFiles(session, folders, names, hive);
    return new HadoopFsRelation(index, hive, rest, Option.empty(), how.made(), SparkLine.immutable(how.options()), session);
  }

  /** The columns of all these Parquet files, as JSON; fails where two of them have one of other types. */
  public static String columns(SparkSession session, String folders, String names) {
    VersionFiles index = new VersionFiles(session, folders, names, new StructType());
    return new ParquetFileFormat()
        .inferSchema(session, SparkLine.immutable(Map.of("mergeSchema", "true")), index.allFiles())
        .get()
        .json();
  }

  private static PartitionSpec spec(SparkSession session, StructType columns, Map<Path, String> places) {
    ZoneId zone = ZoneId.of(session.sessionState().conf().sessionLocalTimeZone());
    List<PartitionPath> found = new ArrayList<>();
    for (Map.Entry<Path, String> place : places.entrySet()) {
      String[] parts = place.getValue().split("/");
      Object[] values = new Object[parts.length];
      for (int i = 0; i < parts.length; i++) {
        // As it stands in the path: Spark's cast takes the escapes away.
        String value = parts[i].substring(parts[i].indexOf('=') + 1);
        boolean isNull = value.equals(ExternalCatalogUtils.DEFAULT_PARTITION_NAME());
        values[i] = isNull ? null : PartitioningUtils.castPartValueToDesiredType(columns.fields()[i].dataType(), value, zone);
      }
      found.add(new PartitionPath(new GenericInternalRow(values), place.getKey()));
    }
    return new PartitionSpec(columns, SparkObjects.seq(found));
  }

  @Override
  public PartitionSpec partitionSpec() {
    return partitions;
  }

  @Override
  public scala.collection.mutable.LinkedHashMap<Path, FileStatus> leafFiles() {
    scala.collection.mutable.LinkedHashMap<Path, FileStatus> all = new scala.collection.mutable.LinkedHashMap<>();
    files.forEach(all::put);
    return all;
  }

  @Override
  public scala.collection.immutable.Map<Path, FileStatus[]> leafDirToChildrenFiles() {
    return directories;
  }

  @Override
  public Seq<Path> rootPaths() {
    return SparkObjects.seq(roots);
  }

  @Override
  public void refresh() {
    // Published files never change.
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof VersionFiles one && roots.equals(one.roots) && Arrays.equals(inputFiles(), one.inputFiles());
  }

  @Override
  public int hashCode() {
    return roots.hashCode();
  }
}
