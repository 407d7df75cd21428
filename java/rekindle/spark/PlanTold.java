// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;

import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/**
 * All that tells one plan from another, in one answer to the driver's Python: the hash of its shape, and what the shape leaves out. Lists of texts, each
 * with its length before it; a function of Java or Scala is its name and its identity, one of Python its name, its bytes and the files of its broadcasts.
 */
public final class PlanTold {
  private PlanTold() {}

  /** Shape; seeds that were written; seeds that may have been drawn; chosen names; metadata of columns; functions of the JVM; functions of Python. */
  public static byte[] of(LogicalPlan plan) throws IOException {
    PlanShape shape = new PlanShape();
    StringBuilder text = new StringBuilder();
    shape.write(plan, text);
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(bytes);
    texts(out, List.of(PlanShape.hash(text.toString())));
    texts(out, shape.seeds.written);
    texts(out, shape.seeds.unsure);
    texts(out, shape.names.chosen(shape.seeds.drawn));
    texts(out, shape.metadata);
    out.writeInt(2 * shape.compiled.size());
    for (Map.Entry<String, Object> one : shape.compiled) {
      text(out, one.getKey());
      text(out, JvmCode.identity(one.getValue()));
    }
    out.writeInt(3 * shape.functions.size());
    for (Map.Entry<String, PythonFunction> one : shape.functions) {
      text(out, one.getKey());
      bytes(out, PythonCode.command(one.getValue()));
      text(out, PythonCode.broadcasts(one.getValue()));
    }
    return bytes.toByteArray();
  }

  private static void texts(DataOutputStream out, List<String> texts) throws IOException {
    out.writeInt(texts.size());
    for (String one : texts) {
      text(out, one);
    }
  }

  private static void text(DataOutputStream out, String text) throws IOException {
    bytes(out, text.getBytes(StandardCharsets.UTF_8));
  }

  private static void bytes(DataOutputStream out, byte[] bytes) throws IOException {
    out.writeInt(bytes.length);
    out.write(bytes);
  }
}
