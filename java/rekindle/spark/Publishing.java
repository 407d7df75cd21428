// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.reflect.Constructor;
import java.net.URI;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumException;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.IOUtils;
import org.apache.parquet.hadoop.util.HadoopOutputFile;
import org.apache.parquet.schema.MessageType;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.catalyst.catalog.CatalogUtils;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.parquet.ParquetReadSupport;
import org.apache.spark.sql.execution.datasources.parquet.SparkToParquetSchemaConverter;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;

import scala.Option;
import scala.Product;
import scala.jdk.javaapi.CollectionConverters;

/** What publishing asks of the JVM: many files brought by one Spark job, one change of a table, an empty Parquet file. */
public final class Publishing {
  private static final int TASKS_PER_CORE = 8;
  private static final int BUFFER = 1 << 20;

  /** Stores where a file appears whole when it is closed, and where a rename would be a second copy. */
  private static final Set<String> WHOLE_ON_CLOSE = Set.of("s3a", "s3", "s3n", "gs");

  private Publishing() {}

  /**
   * Bring files into a directory. Each line of `files` is source, length and new name, with tabs between. On one local
   * disk a file is read to its end, which checks its sums, and linked: a quarter of the CPU of a copy, and no space. On
   * object stores it is copied to its name, by the store itself if it can. Elsewhere it is copied to `scratch` and renamed.
   * In each case it is whole under its name, and a second task brings the same bytes there. Returns a line for each source
   * that is not what was committed: path, tab, why.
   */
  public static String copy(SparkSession session, String files, String directory, String scratch) throws IOException {
    List<String> lines = files.lines().toList();
    JavaSparkContext context = JavaSparkContext.fromSparkContext(session.sparkContext());
    Configuration conf = session.sessionState().newHadoopConf();
    FileSystem to = new Path(directory).getFileSystem(conf);
    if (!WHOLE_ON_CLOSE.contains(to.getScheme())) {
      to.mkdirs(new Path(directory));
    }
    Broadcast<SerializableConfiguration> settings = context.broadcast(new SerializableConfiguration(conf));
    int tasks = Math.min(lines.size(), TASKS_PER_CORE * context.defaultParallelism());
    List<String> lost =
        context
            .parallelize(lines, tasks)
            .mapPartitions(part -> copyAll(part, settings.value().value(), directory, scratch))
            .collect();
    settings.destroy();
    return String.join("\n", lost);
  }

  private static Iterator<String> copyAll(Iterator<String> lines, Configuration conf, String directory, String scratch)
      throws IOException {
    List<String> lost = new ArrayList<>();
    while (lines.hasNext()) {
      String[] fields = lines.next().split("\t");
      Path source = new Path(fields[0]);
      try {
        FileSystem from = source.getFileSystem(conf);
        long length = from.getFileStatus(source).getLen();
        if (length != Long.parseLong(fields[1])) {
          lost.add(fields[0] + "\thas " + length + " of " + fields[1] + " bytes");
          continue;
        }
        Path target = new Path(directory, fields[2]);
        FileSystem to = target.getFileSystem(conf);
        if (fields[2].indexOf('/') >= 0 && !WHOLE_ON_CLOSE.contains(to.getScheme())) {
          to.mkdirs(target.getParent());
        }
        if (!isLinked(from, source, to, target) && !ServerSideCopy.isDone(from, source, length, to, target)) {
          copy(from, source, length, to, target, scratch);
        }
      } catch (FileNotFoundException e) {
        lost.add(fields[0] + "\tis missing");
      } catch (ChecksumException e) {
        lost.add(fields[0] + "\tis damaged");
      }
    }
    return lost.iterator();
  }

  /** A second name for the same bytes, and for their sums. Files are never changed in place, so both stay as they are. */
  private static boolean isLinked(FileSystem from, Path source, FileSystem to, Path target) throws IOException {
    if (!(from instanceof LocalFileSystem && to instanceof LocalFileSystem)) {
      return false;
    }
    LocalFileSystem disk = (LocalFileSystem) from;
    try (FSDataInputStream in = disk.open(source)) {
      IOUtils.copyBytes(in, OutputStream.nullOutputStream(), BUFFER);
    }
    Path sums = disk.getChecksumFile(source);
    return (!disk.getRaw().exists(sums) || link(disk, sums, disk.getChecksumFile(target))) && link(disk, source, target);
  }

  private static boolean link(LocalFileSystem disk, Path source, Path target) {
    try {
      Files.createLink(disk.pathToFile(target).toPath(), disk.pathToFile(source).toPath());
      return true;
    } catch (FileAlreadyExistsException e) {
      return true; // An earlier task did it: the name is ours alone.
    } catch (IOException | UnsupportedOperationException e) {
      return false; // Two disks, or one that has no links.
    }
  }

  private static void copy(FileSystem from, Path source, long length, FileSystem to, Path target, String scratch)
      throws IOException {
    boolean direct = WHOLE_ON_CLOSE.contains(to.getScheme());
    Path written = direct ? target : new Path(scratch, UUID.randomUUID().toString());
    try (FSDataInputStream in = from.open(source)) {
      FSDataOutputStream out = to.create(written, true);
      try {
        IOUtils.copyBytes(in, out, BUFFER);
        if (out.getPos() != length) {
          throw new EOFException(source + " ended after " + out.getPos() + " of " + length + " bytes");
        }
      } catch (IOException | RuntimeException e) {
        forget(out, direct);
        throw e;
      }
      out.close();
    }
    if (!direct && !to.rename(written, target) && to.getFileStatus(target).getLen() != length) {
      throw new IOException("could not rename " + written + " to " + target);
    }
  }

  /** A copy that failed. Closing it would put what was written so far under its name, where files appear on close. */
  private static void forget(FSDataOutputStream out, boolean appearsOnClose) {
    try {
      out.abort();
    } catch (UnsupportedOperationException e) {
      if (!appearsOnClose) {
        IOUtils.closeStream(out);
      }
    }
  }

  /** Remove files of a directory, one name per line. Removing what is not there is no error. */
  public static void remove(SparkSession session, String directory, String names) throws IOException {
    FileSystem fs = new Path(directory).getFileSystem(session.sessionState().newHadoopConf());
    for (String name : names.lines().toList()) {
      fs.delete(new Path(directory, name), false);
    }
  }

  /** A Parquet file without rows, so that a result without rows still has its schema. */
  public static void empty(SparkSession session, String file, String schema) throws IOException {
    StructType type = (StructType) DataType.fromJson(schema);
    HadoopOutputFile out = HadoopOutputFile.fromPath(new Path(file), session.sessionState().newHadoopConf());
    MessageType columns = new SparkToParquetSchemaConverter(session.sessionState().conf()).convert(type);
    SparkLine.empty(out, columns, Map.of(ParquetReadSupport.SPARK_METADATA_KEY(), type.json()));
  }

  public static boolean hasDatabase(SparkSession session, String database) {
    return session.sessionState().catalog().databaseExists(database);
  }

  /**
   * Location, schema, provider and type of a table, its buckets in words, whether the catalog tracks its partitions, their columns, then each of its
   * properties, name before value. Null if there is no such table.
   */
  public static String[] table(SparkSession session, String database, String name) throws AnalysisException {
    SessionCatalog catalog = session.sessionState().catalog();
    TableIdentifier identifier = new TableIdentifier(name, Option.apply(database));
    if (!catalog.tableExists(identifier)) {
      return null;
    }
    CatalogTable table = catalog.getTableMetadata(identifier);
    Option<URI> location = table.storage().locationUri();
    List<String> told = new ArrayList<>();
    told.add(location.isDefined() ? CatalogUtils.URIToString(location.get()) : "");
    told.add(table.schema().json());
    told.add(table.provider().isDefined() ? table.provider().get() : "");
    told.add(table.tableType().name());
    told.add(BucketedFiles.told(table.bucketSpec()));
    told.add(String.valueOf(table.tracksPartitionsInCatalog()));
    told.add(String.join("\n", CollectionConverters.asJava(table.partitionColumnNames())));
    CollectionConverters.asJava(table.properties()).forEach((key, value) -> told.addAll(List.of(key, value)));
    return told.toArray(String[]::new);
  }

  /** Where the catalog would put a table that does not say where. */
  public static String defaultPlace(SparkSession session, String database, String name) {
    URI place = session.sessionState().catalog().defaultTablePath(new TableIdentifier(name, Option.apply(database)));
    return CatalogUtils.URIToString(place);
  }

  /** Dropping the table, or a partition of it, removes no file any more. */
  public static void makeExternal(SparkSession session, String database, String name) throws ReflectiveOperationException, AnalysisException {
    SessionCatalog catalog = session.sessionState().catalog();
    CatalogTable table = catalog.getTableMetadata(new TableIdentifier(name, Option.apply(database)));
    catalog.alterTable((CatalogTable) with(table, Map.of("tableType", CatalogTableType.EXTERNAL())));
  }

  /** Location and properties of a table, changed by one call to the catalog; statistics of the old files are dropped. */
  public static void point(
      SparkSession session, String database, String name, String location, Map<String, String> properties)
      throws ReflectiveOperationException, AnalysisException {
    SessionCatalog catalog = session.sessionState().catalog();
    TableIdentifier identifier = new TableIdentifier(name, Option.apply(database));
    CatalogTable table = catalog.getTableMetadata(identifier);
    Map<String, String> merged = new HashMap<>(CollectionConverters.asJava(table.properties()));
    merged.putAll(properties);
    Object all = SparkLine.immutable(merged);
    Object uri = Option.apply(CatalogUtils.stringToURI(location));
    Object storage = with(table.storage(), Map.of("locationUri", uri));
    catalog.alterTable((CatalogTable) with(table, Map.of("storage", storage, "properties", all)));
    if (table.stats().isDefined()) {
      catalog.alterTableStats(identifier, Option.empty());
    }
    catalog.refreshTable(identifier);
  }

  /** A copy of a Scala case class with some fields changed; its number of fields differs between Spark versions. */
  static Object with(Product value, Map<String, Object> changes) throws ReflectiveOperationException {
    Object[] fields = new Object[value.productArity()];
    for (int i = 0; i < fields.length; i++) {
      fields[i] = changes.getOrDefault(SparkLine.argument(value, i), value.productElement(i));
    }
    for (Constructor<?> made : value.getClass().getConstructors()) {
      if (made.getParameterCount() == fields.length) {
        return made.newInstance(fields);
      }
    }
    throw new NoSuchMethodException(value.getClass().getName());
  }
}
