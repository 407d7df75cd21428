// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.util.Arrays;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/**
 * Rows as chunks of bytes, pulled by Spark's block manager, which counts and spills them as it goes: no partition has to fit into memory. Each row is its length
 * (8 bytes, so that rows stay aligned) and Spark's own binary form. A digest looks at each row on its way.
 */
final class RowChunks extends AbstractIterator<byte[]> {
  private static final int CHUNK = 256 << 10;
  private static final int LENGTH = Long.BYTES;

  private final Iterator<InternalRow> rows;
  private final UnsafeProjection unsafe;
  private final RowDigest digest;
  private byte[] buffer = new byte[CHUNK];
  private long bytes;
  private long count;

  /** `digest` is null where none is wanted. */
  RowChunks(Iterator<InternalRow> rows, StructType schema, RowDigest digest) {
    this.rows = rows;
    this.unsafe = UnsafeProjection.create(schema);
    this.digest = digest;
  }

  /** The rows of such chunks. Each is one object that moves on: who keeps a row copies it. */
  static Iterator<InternalRow> rows(Iterator<Object> chunks, int columns) {
    return new Rows(chunks, columns);
  }

  /** The bytes of all chunks so far. */
  long bytes() {
    return bytes;
  }

  /** The rows of all chunks so far. */
  long count() {
    return count;
  }

  /** Of all rows so far; empty if none is made. */
  String digest() {
    return digest == null ? "" : digest.packed();
  }

  @Override
  public boolean hasNext() {
    return rows.hasNext();
  }

  @Override
  public byte[] next() {
    int used = 0;
    while (used < CHUNK && rows.hasNext()) {
      InternalRow row = rows.next();
      if (digest != null) {
        digest.add(row);
      }
      count++;
      used = append(row instanceof UnsafeRow one ? one : unsafe.apply(row), used);
    }
    bytes += used;
    return Arrays.copyOf(buffer, used);
  }

  private int append(UnsafeRow row, int used) {
    int size = row.getSizeInBytes();
    int end = Math.addExact(used, Math.addExact(size, LENGTH));
    if (end > buffer.length) {
      buffer = Arrays.copyOf(buffer, Math.max(end, buffer.length + (buffer.length >> 1)));
    }
    Platform.putLong(buffer, Platform.BYTE_ARRAY_OFFSET + used, size);
    Platform.copyMemory(row.getBaseObject(), row.getBaseOffset(), buffer, Platform.BYTE_ARRAY_OFFSET + used + LENGTH, size);
    return end;
  }

  private static final class Rows extends AbstractIterator<InternalRow> {
    private final Iterator<Object> chunks;
    private final UnsafeRow row;
    private byte[] chunk = new byte[0];
    private int at;

    Rows(Iterator<Object> chunks, int columns) {
      this.chunks = chunks;
      this.row = new UnsafeRow(columns);
    }

    @Override
    public boolean hasNext() {
      return at < chunk.length || chunks.hasNext();
    }

    @Override
    public InternalRow next() {
      if (at >= chunk.length) {
        chunk = (byte[]) chunks.next();
        at = 0;
      }
      int size = (int) Platform.getLong(chunk, Platform.BYTE_ARRAY_OFFSET + at);
      row.pointTo(chunk, Platform.BYTE_ARRAY_OFFSET + at + LENGTH, size);
      at += LENGTH + size;
      return row;
    }
  }
}
