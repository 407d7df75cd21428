// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.UserDefinedType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.CalendarInterval;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Two 64-bit hashes of a row that follow its values alone, never the way they lie in memory.
 *
 * Rules:
 * 1. Each value is one or more 64-bit words; both lanes take every word in order, each in a way of its own, so that rows that collide in one lane do
 *    not therefore collide in the other.
 * 2. Zeros have no sign and all NaN are one. A timestamp is its microseconds, whatever the session's time zone; a decimal its unscaled number.
 * 3. A string is its bytes, also one with a collation: two spellings that a collation calls equal can be told apart by whoever reads them.
 * 4. The entries of a map are summed up, so that their order does not count; that of an array and of a struct does.
 * 5. Lengths and nulls are words too: no two different rows of a schema give the same words, but for a long that is the word of null.
 *
 * One instance per thread; nothing is allocated per row, except where Spark's own accessors do.
 */
final class RowHash {
  private static final long NOTHING = 0xE220A8397B1DCDAFL;
  private static final long SEED_A = 0x27D4EB2F165667C5L, SEED_B = 0x6A09E667F3BCC909L;

  private final int[] kinds;
  private final RowHash[] inner;
  private final DataType[] types;
  private long a, b;

  private RowHash(DataType... types) {
    this.types = types;
    this.kinds = new int[types.length];
    this.inner = new RowHash[types.length];
    for (int at = 0; at < types.length; at++) {
      while (types[at] instanceof UserDefinedType<?> made) {
        types[at] = made.sqlType();
      }
      kinds[at] = Kinds.of(types[at]);
      inner[at] = inside(types[at]);
    }
  }

  /** Fails for a schema that holds a type without a canonical form; see {@link Kinds#isKnown}. */
  static RowHash of(StructType schema) {
    StructField[] fields = schema.fields();
    DataType[] types = new DataType[fields.length];
    for (int at = 0; at < fields.length; at++) {
      types[at] = fields[at].dataType();
    }
    return new RowHash(types);
  }

  private static RowHash inside(DataType type) {
    if (type instanceof StructType struct) {
      return of(struct);
    }
    if (type instanceof ArrayType array) {
      return new RowHash(array.elementType());
    }
    return type instanceof MapType map ? new RowHash(map.keyType(), map.valueType()) : null;
  }

  long first() {
    return avalanche(a);
  }

  long second() {
    return avalanche(b);
  }

  /** Both hashes of a row, told by `first` and `second`. */
  void hash(InternalRow row) {
    if (row instanceof UnsafeRow unsafe) {
      hashUnsafe(unsafe);
      return;
    }
    start();
    for (int at = 0; at < kinds.length; at++) {
      value(row, at, at);
    }
  }

  /** Both hashes of a text. */
  void hash(String text) {
    start();
    text(UTF8String.fromString(text));
  }

  private void start() {
    a = SEED_A;
    b = SEED_B;
  }

  /** The rows that Spark writes, straight from memory: the lanes stay in registers. */
  private void hashUnsafe(UnsafeRow row) {
    Object base = row.getBaseObject();
    long nulls = row.getBaseOffset();
    long fields = nulls + UnsafeRow.calculateBitSetWidthInBytes(row.numFields());
    int[] kinds = this.kinds;
    long a = SEED_A;
    long b = SEED_B;
    for (int at = 0; at < kinds.length; at++) {
      long field = fields + 8L * at;
      boolean isNull = (Platform.getLong(base, nulls + (at >> 6 << 3)) >>> at & 1) != 0;
      long mixed;
      switch (isNull ? Kinds.NULL : kinds[at]) {
        case Kinds.NULL:
          mixed = mix(NOTHING);
          break;
        case Kinds.INT:
          mixed = mix(Platform.getInt(base, field));
          break;
        case Kinds.LONG:
        case Kinds.DECIMAL_LONG:
          mixed = mix(Platform.getLong(base, field));
          break;
        case Kinds.DOUBLE:
          mixed = mix(bits(Platform.getDouble(base, field)));
          break;
        case Kinds.FLOAT:
          mixed = mix(bits(Platform.getFloat(base, field)));
          break;
        case Kinds.BOOLEAN:
          mixed = mix(Platform.getBoolean(base, field) ? 1 : 0);
          break;
        case Kinds.STRING:
        case Kinds.BINARY:
        case Kinds.DECIMAL:
          long place = Platform.getLong(base, field); // Where it lies in the row, and how long it is.
          int size = (int) place;
          long next = row.getBaseOffset() + (place >> 32);
          if (size >= Long.BYTES) {
            mixed = mix(size);
            a = laneA(a, mixed);
            b = laneB(b, mixed);
            for (long last = next + size - Long.BYTES; next <= last; next += Long.BYTES) {
              mixed = mix(Platform.getLong(base, next));
              a = laneA(a, mixed);
              b = laneB(b, mixed);
            }
            size %= Long.BYTES;
            if (size == 0) {
              continue;
            }
            mixed = mix(rest(base, next, size));
          } else {
            mixed = mix(rest(base, next, size) | (long) size << 56);
          }
          break;
        default:
          this.a = a;
          this.b = b;
          value(row, at, at);
          a = this.a;
          b = this.b;
          continue;
      }
      a = laneA(a, mixed);
      b = laneB(b, mixed);
    }
    this.a = a;
    this.b = b;
  }

  private void value(SpecializedGetters from, int at, int column) {
    switch (from.isNullAt(at) ? Kinds.NULL : kinds[column]) {
      case Kinds.NULL -> word(NOTHING);
      case Kinds.BOOLEAN -> word(from.getBoolean(at) ? 1 : 0);
      case Kinds.BYTE -> word(from.getByte(at));
      case Kinds.SHORT -> word(from.getShort(at));
      case Kinds.INT -> word(from.getInt(at));
      case Kinds.LONG -> word(from.getLong(at));
      case Kinds.FLOAT -> word(bits(from.getFloat(at)));
      case Kinds.DOUBLE -> word(bits(from.getDouble(at)));
      case Kinds.DECIMAL_LONG -> word(Kinds.decimal(from, at, types[column]).toUnscaledLong());
      case Kinds.DECIMAL -> bytes(Kinds.decimal(from, at, types[column]).toJavaBigDecimal().unscaledValue().toByteArray());
      case Kinds.STRING -> text(from.getUTF8String(at));
      case Kinds.BINARY -> bytes(from.getBinary(at));
      case Kinds.INTERVAL -> interval(from.getInterval(at));
      case Kinds.VARIANT -> variant(SparkLine.variant(from, at));
      case Kinds.ARRAY -> array(from.getArray(at), inner[column]);
      case Kinds.MAP -> map(from.getMap(at), inner[column]);
      case Kinds.STRUCT -> struct(from.getStruct(at, inner[column].kinds.length), inner[column]);
      default -> throw new IllegalStateException("no canonical form: " + types[column]);
    }
  }

  private void struct(InternalRow row, RowHash fields) {
    fields.hash(row);
    both(fields.a, fields.b);
  }

  private void array(ArrayData array, RowHash element) {
    int size = array.numElements();
    element.start();
    for (int at = 0; at < size; at++) {
      element.value(array, at, 0);
    }
    word(size);
    both(element.a, element.b);
  }

  private void map(MapData map, RowHash entry) {
    int size = map.numElements();
    ArrayData keys = map.keyArray();
    ArrayData values = map.valueArray();
    long first = 0;
    long second = 0;
    for (int at = 0; at < size; at++) {
      entry.start();
      entry.value(keys, at, 0);
      entry.value(values, at, 1);
      first += entry.first();
      second += entry.second();
    }
    word(size);
    both(first, second);
  }

  private void interval(CalendarInterval interval) {
    word(interval.months);
    word(interval.days);
    word(interval.microseconds);
  }

  private void variant(byte[][] parts) {
    bytes(parts[1]);
    bytes(parts[0]);
  }

  private void text(UTF8String text) {
    bytes(text.getBaseObject(), text.getBaseOffset(), text.numBytes());
  }

  private void bytes(byte[] bytes) {
    bytes(bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length);
  }

  /** Up to seven bytes are one word with their number on top; more are their number, then eight bytes each. */
  private void bytes(Object base, long offset, int size) {
    if (size < Long.BYTES) {
      word(rest(base, offset, size) | (long) size << 56);
      return;
    }
    word(size);
    long at = offset;
    for (long last = offset + size - Long.BYTES; at <= last; at += Long.BYTES) {
      word(Platform.getLong(base, at));
    }
    if (size % Long.BYTES > 0) {
      word(rest(base, at, size % Long.BYTES));
    }
  }

  /** Fewer than eight bytes as a number, the first byte lowest. */
  private static long rest(Object base, long offset, int size) {
    if (size >= Integer.BYTES) {
      long low = Platform.getInt(base, offset) & 0xFFFFFFFFL;
      long high = Platform.getInt(base, offset + size - Integer.BYTES) & 0xFFFFFFFFL;
      return low | high << (size - Integer.BYTES) * 8; // The bytes in both are the same.
    }
    long word = 0;
    for (int at = size - 1; at >= 0; at--) {
      word = word << 8 | Platform.getByte(base, offset + at) & 0xFFL;
    }
    return word;
  }

  private static long bits(double value) {
    return value == 0.0 ? 0 : Double.doubleToLongBits(value);
  }

  private static long bits(float value) {
    return value == 0.0f ? 0 : Float.floatToIntBits(value);
  }

  private void word(long word) {
    both(word, word);
  }

  private void both(long first, long second) {
    a = laneA(a, mix(first));
    b = laneB(b, mix(second));
  }

  /** A flipped bit of a word becomes many before it meets a lane. */
  private static long mix(long word) {
    return Long.rotateLeft(word * 0xC2B2AE3D27D4EB4FL, 31);
  }

  private static long laneA(long lane, long mixed) {
    return Long.rotateLeft(lane ^ mixed, 27) * 0x9E3779B185EBCA87L;
  }

  private static long laneB(long lane, long mixed) {
    return (Long.rotateLeft(lane, 33) + mixed) * 0xFF51AFD7ED558CCDL;
  }

  /** Each bit of the lane reaches every bit: sums of such hashes do not cancel out. */
  private static long avalanche(long lane) {
    long mixed = (lane ^ lane >>> 33) * 0xC2B2AE3D27D4EB4FL;
    mixed = (mixed ^ mixed >>> 29) * 0x165667B19E3779F9L;
    return mixed ^ mixed >>> 32;
  }
}
