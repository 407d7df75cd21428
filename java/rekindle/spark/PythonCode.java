// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.util.List;

import org.apache.spark.api.python.PythonBroadcast;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.broadcast.Broadcast;

/** One Python function of a plan, as it goes to the workers. */
public final class PythonCode {
  private PythonCode() {}

  /** The bytes that PySpark made of it. */
  public static byte[] command(PythonFunction function) {
    byte[] bytes = new byte[function.command().length()];
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] = ((Number) function.command().apply(i)).byteValue();
    }
    return bytes;
  }

  /** The broadcast variables it may use, one line each: id, and the file in which the driver has its value. */
  public static String broadcasts(PythonFunction function) {
    StringBuilder lines = new StringBuilder();
    List<Broadcast<PythonBroadcast>> used = function.broadcastVars();
    for (Broadcast<PythonBroadcast> one : used) {
      lines.append(one.id()).append('\t').append(one.value().path()).append('\n');
    }
    return lines.toString();
  }
}
