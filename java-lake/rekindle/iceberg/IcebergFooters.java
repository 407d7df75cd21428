// SPDX-License-Identifier: Apache-2.0
package rekindle.iceberg;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.ContentFileParser;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.Metrics;
import org.apache.iceberg.MetricsConfig;
import org.apache.iceberg.PartitionData;
import org.apache.iceberg.PartitionField;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SerializableTable;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.mapping.MappingUtil;
import org.apache.iceberg.mapping.NameMapping;
import org.apache.iceberg.mapping.NameMappingParser;
import org.apache.iceberg.parquet.ParquetSchemaUtil;
import org.apache.iceberg.parquet.ParquetUtil;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.metadata.ParquetMetadata;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.iceberg.shaded.org.apache.parquet.schema.MessageType;
import org.apache.iceberg.transforms.Transform;
import org.apache.iceberg.types.Conversions;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.TypeUtil;
import org.apache.iceberg.types.Types;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.util.SerializableConfiguration;

/**
 * Parquet files that Spark wrote, as files of an Iceberg table: with the metrics that Iceberg makes of their footers, and the values of their partition. The files
 * have no ids of columns: the table's mapping of names tells them. A partition is proved by the footer: the least and the greatest of its column come to one value.
 */
public final class IcebergFooters {
  private static final int TASKS_PER_CORE = 8;
  private static final String FULL = "full";

  private IcebergFooters() {}

  /**
   * A line of JSON for each file of a directory (`names`: name, tab, bytes): `rows`; `only`, of each column of `single` the one value that all rows have; `file`, as
   * Iceberg's own JSON has it, where the file is under `location`; `unlike`, why it is no file of the table; `mixed`, the field of the partition that is not proved.
   */
  public static String read(SparkSession session, String name, String directory, String location, String names, String single)
      throws ParseException, NoSuchTableException {
    List<String> lines = names.lines().toList();
    if (lines.isEmpty()) {
      return "";
    }
    Table table = new BaseTable(IcebergTables.operations(session, name), name);
    JavaSparkContext context = JavaSparkContext.fromSparkContext(session.sparkContext());
    Broadcast<Table> told = context.broadcast(SerializableTable.copyOf(table));
    Configuration conf = session.sessionState().newHadoopConf();
    Broadcast<SerializableConfiguration> settings = context.broadcast(new SerializableConfiguration(conf));
    List<String> alone = single.lines().toList();
    int tasks = Math.min(lines.size(), TASKS_PER_CORE * context.defaultParallelism());
    List<String> found =
        context
            .parallelize(lines, tasks)
            .mapPartitions(part -> readAll(part, told.value(), settings.value().value(), directory, location, alone))
            .collect();
    told.destroy();
    settings.destroy();
    return String.join("\n", found);
  }

  private static Iterator<String> readAll(
      Iterator<String> lines, Table table, Configuration conf, String directory, String location, List<String> alone)
      throws IOException {
    List<String> found = new ArrayList<>();
    while (lines.hasNext()) {
      String[] parts = lines.next().split("\t");
      ParquetMetadata footer;
      try (ParquetFileReader reader = ParquetFileReader.open(HadoopInputFile.fromPath(new Path(directory, parts[0]), conf))) {
        footer = reader.getFooter();
      }
      found.add(IcebergTables.JSON.writeValueAsString(told(table, footer, location + "/" + parts[0], Long.parseLong(parts[1]), alone)));
    }
    return found.iterator();
  }

  private static Map<String, Object> told(Table table, ParquetMetadata footer, String location, long bytes, List<String> alone) {
    Map<String, Object> told = new LinkedHashMap<>();
    NameMapping mapping = mapping(table);
    String unlike = unlike(table.schema(), footer.getFileMetaData().getSchema(), mapping);
    if (unlike != null) {
      told.put("unlike", unlike);
      return told;
    }
    Metrics whole = ParquetUtil.footerMetrics(footer, Stream.empty(), inFull(table, alone), mapping);
    told.put("rows", whole.recordCount());
    Map<String, Object> only = new LinkedHashMap<>();
    for (String column : alone) {
      Bounds bounds = Bounds.of(table.schema().findField(column), whole);
      if (bounds.isOneValue()) {
        only.put(column, IcebergTables.told(bounds.type, bounds.least));
      }
    }
    told.put("only", only);
    PartitionSpec spec = table.spec();
    PartitionData partition = new PartitionData(spec.partitionType());
    for (int i = 0; i < spec.fields().size() && whole.recordCount() > 0; i++) {
      PartitionField field = spec.fields().get(i);
      if (!isSet(partition, i, field, Bounds.of(table.schema().findField(field.sourceId()), whole))) {
        told.put("mixed", field.name());
        return told;
      }
    }
    DataFiles.Builder made =
        DataFiles.builder(spec)
            .withPath(location)
            .withFormat(FileFormat.PARQUET)
            .withFileSizeInBytes(bytes)
            .withMetrics(ParquetUtil.footerMetrics(footer, Stream.empty(), MetricsConfig.forTable(table), mapping))
            .withSplitOffsets(ParquetUtil.getSplitOffsets(footer));
    told.put("file", ContentFileParser.toJson((spec.isPartitioned() ? made.withPartition(partition) : made).build(), spec));
    return told;
  }

  private static NameMapping mapping(Table table) {
    String told = table.properties().get(TableProperties.DEFAULT_NAME_MAPPING);
    return told == null ? MappingUtil.create(table.schema()) : NameMappingParser.fromJson(told);
  }

  /** Why the table would read another column, or another type, than the file has; null if it would not. */
  private static String unlike(Schema schema, MessageType type, NameMapping mapping) {
    if (ParquetSchemaUtil.hasIds(type)) {
      return "it has ids of columns that are not those of the table";
    }
    Schema file = ParquetSchemaUtil.convert(ParquetSchemaUtil.applyNameMapping(type, mapping));
    Map<Integer, Types.NestedField> there = TypeUtil.indexById(file.asStruct());
    for (Types.NestedField field : TypeUtil.indexById(schema.asStruct()).values()) {
      Types.NestedField found = there.get(field.fieldId());
      if (found == null) {
        return "it has no column " + schema.findColumnName(field.fieldId());
      }
      if (field.type().isPrimitiveType() && !field.type().equals(found.type())) {
        return String.format("its column %s is %s, and %s in the table", schema.findColumnName(field.fieldId()), found.type(), field.type());
      }
    }
    return null;
  }

  /** Metrics that are not cut, of the columns that must be known to the letter. */
  private static MetricsConfig inFull(Table table, List<String> alone) {
    Map<String, String> properties = new HashMap<>();
    properties.put(TableProperties.DEFAULT_WRITE_METRICS_MODE, "none");
    alone.forEach(column -> properties.put(TableProperties.METRICS_MODE_COLUMN_CONF_PREFIX + column, FULL));
    for (PartitionField field : table.spec().fields()) {
      String column = table.schema().findColumnName(field.sourceId());
      properties.put(TableProperties.METRICS_MODE_COLUMN_CONF_PREFIX + column, FULL);
    }
    return MetricsConfig.from(properties, table.schema(), null);
  }

  /** Put the value of a partition's field that all rows have into its place, if the footer proves one. */
  private static boolean isSet(PartitionData partition, int at, PartitionField field, Bounds bounds) {
    @SuppressWarnings("unchecked")
    Transform<Object, Object> transform = (Transform<Object, Object>) field.transform();
    if (transform.isVoid() || bounds.isNull) {
      return true;
    }
    if (!bounds.isKnown || !(bounds.isOneValue() || transform.preservesOrder())) {
      return false;
    }
    Object least = transform.bind(bounds.type).apply(bounds.least);
    if (!least.equals(transform.bind(bounds.type).apply(bounds.most))) {
      return false;
    }
    partition.set(at, least);
    return true;
  }

  /** What a footer says of a column: whether all is null; else, where no row is null, the least and the greatest. */
  private record Bounds(Type type, boolean isNull, boolean isKnown, Object least, Object most) {
    static Bounds of(Types.NestedField field, Metrics metrics) {
      int id = field.fieldId();
      Long nulls = metrics.nullValueCounts().get(id);
      ByteBuffer least = metrics.lowerBounds().get(id);
      ByteBuffer most = metrics.upperBounds().get(id);
      boolean isNull = nulls != null && nulls.equals(metrics.recordCount());
      // A footer does not count what is no number, and leaves it out of its bounds.
      boolean isFloating = field.type().typeId() == Type.TypeID.FLOAT || field.type().typeId() == Type.TypeID.DOUBLE;
      boolean isKnown = nulls != null && nulls == 0 && least != null && most != null && !isFloating;
      return new Bounds(field.type(), isNull, isKnown, isKnown ? value(field.type(), least) : null, isKnown ? value(field.type(), most) : null);
    }

    boolean isOneValue() {
      return isKnown && least.equals(most);
    }

    private static Object value(Type type, ByteBuffer bytes) {
      Object value = Conversions.fromByteBuffer(type, bytes);
      return type.typeId() == Type.TypeID.STRING ? value.toString() : value;
    }
  }
}
