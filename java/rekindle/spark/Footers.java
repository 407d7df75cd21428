// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Instant;
import java.time.LocalDate;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.column.statistics.Statistics;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.metadata.ColumnChunkMetaData;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.parquet.schema.PrimitiveType;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.util.SerializableConfiguration;

/**
 * What the footers of Parquet files say of their rows, in the words that Delta's log has for it. A column whose footer does not
 * say it for all its row groups is left out: whoever skips files by it reads the file then. Texts are cut as Delta cuts them.
 */
public final class Footers {
  private static final int TASKS_PER_CORE = 8;
  private static final int CHARACTERS_MAX = 32;
  private static final ObjectMapper JSON = new ObjectMapper().enable(JsonGenerator.Feature.WRITE_BIGDECIMAL_AS_PLAIN);

  private Footers() {}

  /**
   * A line of JSON for each file of a directory: `rows`, `stats`, and `only`: of each column of `single` the one value that all
   * rows have, null where all are null; it is absent where there are several or the footer does not tell.
   */
  public static String read(SparkSession session, String directory, String names, String columns, String single) {
    List<String> lines = names.lines().toList();
    if (lines.isEmpty()) {
      return "";
    }
    JavaSparkContext context = JavaSparkContext.fromSparkContext(session.sparkContext());
    Configuration conf = session.sessionState().newHadoopConf();
    Broadcast<SerializableConfiguration> settings = context.broadcast(new SerializableConfiguration(conf));
    Set<String> counted = Set.copyOf(columns.lines().toList());
    List<String> alone = single.lines().toList();
    int tasks = Math.min(lines.size(), TASKS_PER_CORE * context.defaultParallelism());
    List<String> found =
        context
            .parallelize(lines, tasks)
            .mapPartitions(part -> readAll(part, settings.value().value(), directory, counted, alone))
            .collect();
    settings.destroy();
    return String.join("\n", found);
  }

  /** A link has the age of the file that it is a second name of: what cleans up by age must take it for a new one. */
  public static void touch(SparkSession session, String directory, String names, long atMs) throws IOException {
    FileSystem fs = new Path(directory).getFileSystem(session.sessionState().newHadoopConf());
    if (fs instanceof LocalFileSystem) {
      for (String name : names.lines().toList()) {
        fs.setTimes(new Path(directory, name), atMs, -1);
      }
    }
  }

  private static Iterator<String> readAll(
      Iterator<String> names, Configuration conf, String directory, Set<String> counted, List<String> alone)
      throws IOException {
    List<String> lines = new ArrayList<>();
    while (names.hasNext()) {
      Path path = new Path(directory, names.next());
      try (ParquetFileReader reader = ParquetFileReader.open(HadoopInputFile.fromPath(path, conf))) {
        lines.add(JSON.writeValueAsString(told(reader.getFooter().getBlocks(), counted, alone)));
      }
    }
    return lines.iterator();
  }

  private static Map<String, Object> told(List<BlockMetaData> blocks, Set<String> counted, List<String> alone)
      throws JsonProcessingException {
    long rows = 0;
    Map<String, Column> columns = new LinkedHashMap<>();
    for (BlockMetaData block : blocks) {
      rows += block.getRowCount();
      for (ColumnChunkMetaData chunk : block.getColumns()) {
        if (chunk.getPath().size() == 1) {
          String name = chunk.getPath().toArray()[0];
          columns.computeIfAbsent(name, key -> new Column(chunk.getPrimitiveType())).add(chunk.getStatistics());
        }
      }
    }
    Map<String, Object> least = new LinkedHashMap<>();
    Map<String, Object> most = new LinkedHashMap<>();
    Map<String, Object> nulls = new LinkedHashMap<>();
    Map<String, Object> only = new LinkedHashMap<>();
    for (Map.Entry<String, Column> entry : columns.entrySet()) {
      Column column = entry.getValue();
      if (counted.contains(entry.getKey()) && column.isKnown) {
        nulls.put(entry.getKey(), column.nulls);
        put(least, entry.getKey(), column.told(column.min, true));
        put(most, entry.getKey(), column.told(column.max, false));
      }
      if (alone.contains(entry.getKey()) && column.isKnown && rows > 0) {
        if (column.nulls == rows) {
          only.put(entry.getKey(), null);
        } else if (column.nulls == 0 && column.isTextOrWhole() && column.min != null && column.min.equals(column.max)) {
          put(only, entry.getKey(), column.plain(column.min));
        }
      }
    }
    Map<String, Object> stats = new LinkedHashMap<>();
    stats.put("numRecords", rows);
    stats.put("minValues", least);
    stats.put("maxValues", most);
    stats.put("nullCount", nulls);
    Map<String, Object> told = new LinkedHashMap<>();
    told.put("rows", rows);
    told.put("stats", JSON.writeValueAsString(stats)); // As text: no reader in between may round a number.
    told.put("only", only);
    return told;
  }

  private static void put(Map<String, Object> to, String name, Object value) {
    if (value != null) {
      to.put(name, value);
    }
  }

  /** What the row groups of a file say of one column. */
  private static final class Column {
    private final PrimitiveType type;
    private boolean isKnown = true;
    private long nulls;
    private Object min;
    private Object max;

    Column(PrimitiveType type) {
      this.type = type;
    }

    void add(Statistics<?> found) {
      if (found == null || found.isEmpty() || !found.isNumNullsSet()) {
        isKnown = false;
        return;
      }
      nulls += found.getNumNulls();
      if (found.hasNonNullValue()) {
        if (min == null || compare(found.genericGetMin(), min) < 0) {
          min = found.genericGetMin();
        }
        if (max == null || compare(found.genericGetMax(), max) > 0) {
          max = found.genericGetMax();
        }
      }
    }

    private int compare(Object one, Object other) {
      return type.<Object>comparator().compare(one, other);
    }

    boolean isTextOrWhole() {
      LogicalTypeAnnotation kind = type.getLogicalTypeAnnotation();
      boolean whole = kind == null || kind instanceof LogicalTypeAnnotation.IntLogicalTypeAnnotation;
      return switch (type.getPrimitiveTypeName()) {
        case INT32 -> whole || kind instanceof LogicalTypeAnnotation.DateLogicalTypeAnnotation;
        case INT64 -> whole;
        case BINARY -> kind instanceof LogicalTypeAnnotation.StringLogicalTypeAnnotation;
        default -> false;
      };
    }

    Object told(Object value, boolean isLeast) {
      Object plain = value == null ? null : plain(value);
      if (plain instanceof String text && kindIsText() && text.codePointCount(0, text.length()) > CHARACTERS_MAX) {
        return isLeast ? text.substring(0, text.offsetByCodePoints(0, CHARACTERS_MAX)) : null;
      }
      if (plain instanceof Instant moment) {
        Instant cut = moment.truncatedTo(ChronoUnit.MILLIS);
        Instant bound = isLeast || cut.equals(moment) ? cut : cut.plusMillis(1);
        return bound.isBefore(Instant.EPOCH) || bound.getEpochSecond() > 253_000_000_000L ? null : iso(bound);
      }
      return plain;
    }

    private boolean kindIsText() {
      return type.getLogicalTypeAnnotation() instanceof LogicalTypeAnnotation.StringLogicalTypeAnnotation;
    }

    private static String iso(Instant moment) {
      String text = moment.toString();
      return text.contains(".") ? text : text.replace("Z", ".000Z");
    }

    /** Null for what has no order that Delta knows. */
    Object plain(Object value) {
      LogicalTypeAnnotation kind = type.getLogicalTypeAnnotation();
      if (kind instanceof LogicalTypeAnnotation.DecimalLogicalTypeAnnotation decimal) {
        if (value instanceof Binary bytes) {
          return new BigDecimal(new BigInteger(bytes.getBytes()), decimal.getScale());
        }
        return BigDecimal.valueOf(((Number) value).longValue(), decimal.getScale());
      }
      return switch (type.getPrimitiveTypeName()) {
        case INT32 -> {
          int number = (Integer) value;
          if (kind instanceof LogicalTypeAnnotation.DateLogicalTypeAnnotation) {
            yield number >= -700_000 && number <= 2_900_000 ? LocalDate.ofEpochDay(number).toString() : null;
          }
          yield isTextOrWhole() ? (Object) number : null;
        }
        case INT64 -> {
          long number = (Long) value;
          if (kind instanceof LogicalTypeAnnotation.TimestampLogicalTypeAnnotation time) {
            boolean inMicros = time.isAdjustedToUTC() && time.getUnit() == LogicalTypeAnnotation.TimeUnit.MICROS;
            yield inMicros ? Instant.EPOCH.plus(number, ChronoUnit.MICROS) : null;
          }
          yield isTextOrWhole() ? (Object) number : null;
        }
        case FLOAT -> Float.isFinite((Float) value) ? value : null;
        case DOUBLE -> Double.isFinite((Double) value) ? value : null;
        case BINARY -> kindIsText() ? ((Binary) value).toStringUsingUTF8() : null;
        default -> null;
      };
    }
  }
}
