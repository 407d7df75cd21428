// SPDX-License-Identifier: Apache-2.0
package rekindle.iceberg;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.iceberg.BaseTable;
import org.apache.iceberg.ContentFileParser;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.OverwriteFiles;
import org.apache.iceberg.PartitionField;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.PartitionSpecParser;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.SnapshotUpdate;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.Transaction;
import org.apache.iceberg.Transactions;
import org.apache.iceberg.UpdateProperties;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.mapping.MappingUtil;
import org.apache.iceberg.mapping.NameMappingParser;
import org.apache.iceberg.spark.Spark3Util;
import org.apache.iceberg.spark.SparkSchemaUtil;
import org.apache.iceberg.spark.source.HasIcebergCatalog;
import org.apache.iceberg.spark.source.SparkTable;
import org.apache.iceberg.types.Conversions;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.classic.SparkSession;

/**
 * Iceberg tables of a session's catalogs, in one call for all files. Files come and go as the JSON that Iceberg itself has for them. Built against Iceberg's jar,
 * which the main jar never needs.
 */
public final class IcebergTables {
  static final ObjectMapper JSON = new ObjectMapper();
  private static final org.apache.iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper ICEBERG_JSON =
      new org.apache.iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper();
  /** Dates that any reader of text puts into their order by their letters. */
  private static final LocalDate FIRST = LocalDate.of(1, 1, 1);
  private static final LocalDate LAST = LocalDate.of(9999, 12, 31);

  private IcebergTables() {}

  /**
   * What a name stands for, by tabs: the kind, the catalog, the whole name in quotes, and what the kind tells. `table` and its location; `absent` where it could be
   * made; `no namespace` and its name; `no catalog` where the catalog is none of Iceberg; `other` and what it is.
   */
  public static String found(SparkSession session, String name) throws ParseException {
    Spark3Util.CatalogAndIdentifier found = Spark3Util.catalogAndIdentifier(session, name);
    String catalog = found.catalog().name();
    String whole = Spark3Util.quotedFullIdentifier(catalog, found.identifier());
    if (!(found.catalog() instanceof HasIcebergCatalog)) {
      return String.join("\t", "no catalog", catalog, whole, "");
    }
    String[] namespace = found.identifier().namespace();
    try {
      var table = found.tableCatalog().loadTable(found.identifier());
      if (table instanceof SparkTable one
          && one.table() instanceof BaseTable base
          && one.branch() == null
          && base.name().endsWith("." + found.identifier().name())) { // Else the name goes on: with a snapshot, a tag.
        return String.join("\t", "table", catalog, whole, base.location());
      }
      return String.join("\t", "other", catalog, whole, told(table));
    } catch (NoSuchTableException e) {
      boolean isThere = !(found.catalog() instanceof SupportsNamespaces spaces) || spaces.namespaceExists(namespace);
      return String.join("\t", isThere ? "absent" : "no namespace", catalog, whole, String.join(".", namespace));
    }
  }

  private static String told(org.apache.spark.sql.connector.catalog.Table table) {
    String provider = table.properties().get("provider");
    return provider != null && !(table instanceof SparkTable) ? "a table of " + provider : "no table, but a branch, a snapshot or another view of one";
  }

  /** A table as JSON: its metadata's file, which tells one version from another, and what a publication must know of it. Empty without a table. */
  public static String state(SparkSession session, String name) throws ParseException, JsonProcessingException {
    TableOperations operations;
    try {
      operations = operations(session, name);
    } catch (NoSuchTableException e) {
      return "";
    }
    TableMetadata now = operations.refresh();
    Map<String, Object> told = new LinkedHashMap<>();
    told.put("version", now.metadataFileLocation());
    told.put("id", now.uuid());
    told.put("format", now.formatVersion());
    told.put("snapshot", now.currentSnapshot() == null ? null : now.currentSnapshot().snapshotId());
    told.put("schema", SchemaParser.toJson(now.schema()));
    told.put("columns", SparkSchemaUtil.convert(now.schema()).json());
    told.put("spec", PartitionSpecParser.toJson(now.spec()));
    told.put("properties", now.properties());
    told.put("data", data(now));
    return JSON.writeValueAsString(told);
  }

  /**
   * The files of the newest snapshot, one per line: path, below the folder of data where it lies there, tab, bytes, tab, values of its partition as JSON, tab,
   * statistics of these columns, tab, nothing, tab, the number of files that delete rows of it.
   */
  public static String files(SparkSession session, String name, String columns)
      throws ParseException, NoSuchTableException, IOException {
    TableOperations operations = operations(session, name);
    TableMetadata now = operations.refresh();
    Table table = new BaseTable(new PinnedOperations(operations, now), name);
    List<Types.NestedField> asked = fields(now.schema(), columns);
    List<String> lines = new ArrayList<>();
    try (CloseableIterable<FileScanTask> tasks = table.newScan().includeColumnStats(columns.lines().toList()).planFiles()) {
      for (FileScanTask task : tasks) {
        lines.add(told(task.file(), now, asked, task.deletes().size()));
      }
    }
    return String.join("\n", lines);
  }

  static List<Types.NestedField> fields(Schema schema, String columns) {
    List<Types.NestedField> found = new ArrayList<>();
    columns.lines().forEach(column -> found.add(schema.findField(column)));
    return found;
  }

  static String told(DataFile file, TableMetadata table, List<Types.NestedField> asked, int deletes) throws JsonProcessingException {
    PartitionSpec spec = table.specsById().get(file.specId());
    return String.join(
        "\t",
        below(data(table), file.location()),
        Long.toString(file.fileSizeInBytes()),
        JSON.writeValueAsString(partition(file, spec, table.schema())),
        JSON.writeValueAsString(stats(file, asked)),
        "",
        Integer.toString(deletes));
  }

  /**
   * One commit on top of metadata that was looked at, in one exchange of it. `removed` are paths as `files` has them, `*` for all, nothing for none; `added` is the
   * JSON of files, `numbers` are properties and `told` is noted with the snapshot, both with a tab. The answer is `committed`, or `moved` where the metadata is not
   * the newest any more.
   *
   * <p>There is a snapshot in each such commit, also where no file changes: a catalog that merges changes on its side (REST) compares the snapshot, and no property.
   */
  public static String commit(
      SparkSession session, String name, String version, String removed, String added, String numbers, String told)
      throws ParseException, NoSuchTableException, IOException {
    TableOperations operations = operations(session, name);
    TableMetadata base = operations.refresh();
    if (!base.metadataFileLocation().equals(version)) {
      return "moved";
    }
    PinnedOperations pinned = new PinnedOperations(operations, base);
    Transaction transaction = Transactions.newTransaction(name, pinned);
    UpdateProperties properties = transaction.updateProperties();
    pairs(numbers).forEach(properties::set);
    if (!added.isEmpty() && !base.properties().containsKey(TableProperties.DEFAULT_NAME_MAPPING)) {
      properties.set(TableProperties.DEFAULT_NAME_MAPPING, NameMappingParser.toJson(MappingUtil.create(base.schema())));
    }
    properties.commit();
    if (removed.isEmpty() && added.isEmpty()) {
      commit(transaction.newFastAppend(), told);
    } else {
      OverwriteFiles files = transaction.newOverwrite();
      remove(files, new BaseTable(pinned, name), data(base), removed);
      for (String line : added.lines().toList()) {
        files.addFile((DataFile) ContentFileParser.fromJson(ICEBERG_JSON.readTree(line), base.specsById()));
      }
      commit(files, told);
    }
    try {
      transaction.commitTransaction();
    } catch (PinnedOperations.Moved e) {
      return "moved";
    }
    return "committed";
  }

  private static void remove(OverwriteFiles change, Table table, String data, String removed) throws IOException {
    if (removed.equals("*")) {
      change.overwriteByRowFilter(Expressions.alwaysTrue());
      return;
    }
    Set<String> names = new HashSet<>(removed.lines().toList());
    try (CloseableIterable<FileScanTask> tasks = table.newScan().planFiles()) {
      for (FileScanTask task : tasks) {
        if (names.remove(below(data, task.file().location()))) {
          change.deleteFile(task.file());
        }
      }
    }
    if (!names.isEmpty()) {
      throw new IllegalStateException(names.size() + " files are in no snapshot any more, such as " + names.iterator().next());
    }
  }

  private static void commit(SnapshotUpdate<?> update, String told) {
    pairs(told).forEach(update::set);
    update.commit();
  }

  private static Map<String, String> pairs(String lines) {
    Map<String, String> found = new LinkedHashMap<>();
    lines.lines().forEach(line -> found.put(line.substring(0, line.indexOf('\t')), line.substring(line.indexOf('\t') + 1)));
    return found;
  }

  static TableOperations operations(SparkSession session, String name) throws ParseException, NoSuchTableException {
    return ((BaseTable) Spark3Util.loadIcebergTable(session, name)).operations();
  }

  /** Where a writer of the table puts its files unless the table has other ideas for each. */
  private static String data(TableMetadata table) {
    String chosen = table.property(TableProperties.WRITE_DATA_LOCATION, table.location() + "/data");
    return chosen.endsWith("/") ? chosen.substring(0, chosen.length() - 1) : chosen;
  }

  private static String below(String folder, String location) {
    return location.startsWith(folder + "/") ? location.substring(folder.length() + 1) : location;
  }

  /** The values that all rows of a file have, by the column that its partition has as it is. */
  private static Map<String, String> partition(DataFile file, PartitionSpec spec, Schema schema) {
    Map<String, String> values = new LinkedHashMap<>();
    for (int i = 0; i < spec.fields().size(); i++) {
      PartitionField field = spec.fields().get(i);
      String column = schema.findColumnName(field.sourceId());
      if (field.transform().isIdentity() && column != null) {
        Object told = told(schema.findType(field.sourceId()), file.partition().get(i, Object.class));
        values.put(column, told == null ? null : told.toString());
      }
    }
    return values;
  }

  private static Map<String, Object> stats(DataFile file, List<Types.NestedField> columns) {
    Map<String, Object> least = new LinkedHashMap<>();
    Map<String, Object> most = new LinkedHashMap<>();
    Map<String, Object> nulls = new LinkedHashMap<>();
    for (Types.NestedField column : columns) {
      put(least, column, file.lowerBounds());
      put(most, column, file.upperBounds());
      if (file.nullValueCounts() != null && file.nullValueCounts().containsKey(column.fieldId())) {
        nulls.put(column.name(), file.nullValueCounts().get(column.fieldId()));
      }
    }
    Map<String, Object> stats = new LinkedHashMap<>();
    stats.put("numRecords", file.recordCount());
    stats.put("minValues", least);
    stats.put("maxValues", most);
    stats.put("nullCount", nulls);
    return stats;
  }

  private static void put(Map<String, Object> to, Types.NestedField column, Map<Integer, ByteBuffer> bounds) {
    ByteBuffer bound = bounds == null ? null : bounds.get(column.fieldId());
    Object value = bound == null ? null : told(column.type(), Conversions.fromByteBuffer(column.type(), bound));
    if (value != null) {
      to.put(column.name(), value);
    }
  }

  /** A value as a reader of JSON compares it, null for what it could not. */
  static Object told(Type type, Object value) {
    if (value == null) {
      return null;
    }
    return switch (type.typeId()) {
      case INTEGER, LONG -> value;
      case STRING -> value.toString();
      case DATE -> {
        LocalDate day = LocalDate.ofEpochDay((Integer) value);
        yield day.isBefore(FIRST) || day.isAfter(LAST) ? null : day.toString();
      }
      default -> null;
    };
  }
}
