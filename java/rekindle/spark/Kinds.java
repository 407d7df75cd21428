// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.CalendarIntervalType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.types.UserDefinedType;
import org.apache.spark.sql.types.YearMonthIntervalType;

/** How a type is hashed, as small numbers to switch by, and its canonical text. A type that is not named here has no canonical form. */
final class Kinds {
  static final int UNKNOWN = 0, NULL = 1, BOOLEAN = 2, BYTE = 3, SHORT = 4, INT = 5, LONG = 6, FLOAT = 7, DOUBLE = 8;
  static final int DECIMAL_LONG = 9, DECIMAL = 10, STRING = 11, BINARY = 12, INTERVAL = 13, VARIANT = 14;
  static final int ARRAY = 15, MAP = 16, STRUCT = 17;

  private Kinds() {}

  static int of(DataType type) {
    if (type instanceof DecimalType decimal) {
      return decimal.precision() <= Decimal.MAX_LONG_DIGITS() ? DECIMAL_LONG : DECIMAL;
    }
    if (type instanceof LongType || type instanceof TimestampType || type instanceof TimestampNTZType) {
      return LONG;
    }
    if (type instanceof DayTimeIntervalType || SparkLine.isTime(type)) {
      return LONG;
    }
    if (type instanceof IntegerType || type instanceof DateType || type instanceof YearMonthIntervalType) {
      return INT;
    }
    return type instanceof StringType
        ? STRING
        : type instanceof DoubleType
            ? DOUBLE
            : type instanceof FloatType
                ? FLOAT
                : type instanceof BooleanType ? BOOLEAN : type instanceof BinaryType ? BINARY : seldom(type);
  }

  private static int seldom(DataType type) {
    if (type instanceof ByteType || type instanceof ShortType) {
      return type instanceof ByteType ? BYTE : SHORT;
    }
    if (type instanceof ArrayType || type instanceof MapType) {
      return type instanceof ArrayType ? ARRAY : MAP;
    }
    if (type instanceof StructType || type instanceof NullType) {
      return type instanceof StructType ? STRUCT : NULL;
    }
    return type instanceof CalendarIntervalType ? INTERVAL : SparkLine.isVariant(type) ? VARIANT : UNKNOWN;
  }

  /** Has this type, and all inside it, a canonical form? */
  static boolean isKnown(DataType type) {
    if (type instanceof UserDefinedType<?> made) {
      return isKnown(made.sqlType());
    }
    if (type instanceof ArrayType array) {
      return isKnown(array.elementType());
    }
    if (type instanceof MapType map) {
      return isKnown(map.keyType()) && isKnown(map.valueType());
    }
    if (type instanceof StructType struct) {
      for (StructField field : struct.fields()) {
        if (!isKnown(field.dataType())) {
          return false;
        }
      }
      return true;
    }
    return of(type) != UNKNOWN;
  }

  /** Names and types. Whether a column may hold nulls is what a plan knows of it, and no part of the rows. */
  static String text(DataType type) {
    if (type instanceof UserDefinedType<?> made) {
      return text(made.sqlType());
    }
    if (type instanceof ArrayType array) {
      return "array<" + text(array.elementType()) + ">";
    }
    if (type instanceof MapType map) {
      return "map<" + text(map.keyType()) + "," + text(map.valueType()) + ">";
    }
    if (type instanceof StructType struct) {
      StringBuilder out = new StringBuilder("struct<");
      for (StructField field : struct.fields()) {
        out.append(field.name().length()).append(':').append(field.name()).append(' ').append(text(field.dataType())).append(',');
      }
      return out.append('>').toString();
    }
    return type.sql();
  }

  static Decimal decimal(SpecializedGetters from, int at, DataType type) {
    DecimalType decimal = (DecimalType) type;
    return from.getDecimal(at, decimal.precision(), decimal.scale());
  }
}
