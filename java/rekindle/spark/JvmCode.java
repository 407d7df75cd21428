// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.ObjectOutputStream;
import java.io.ByteArrayInputStream;
import java.lang.invoke.SerializedLambda;
import java.lang.reflect.Method;
import java.security.MessageDigest;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * What a function of Java or Scala in a plan is: the class, or for a lambda the method that holds its code, with the bytes of that class and of every
 * class it names that is not Java's, Scala's or Spark's own; and what the function holds, by its serialised form. A new jar with other code in a class
 * of the same name is another function; a jar that was only built again is not.
 */
final class JvmCode {
  private static final List<String> PLATFORM =
      List.of("java.", "javax.", "jdk.", "sun.", "com.sun.", "scala.", "org.apache.spark.", "org.apache.hadoop.", "rekindle.spark.");
  private static final List<String> FUNCTIONS =
      List.of(
          "scala.Function",
          "org.apache.spark.sql.api.java.UDF",
          "org.apache.spark.sql.expressions.Aggregator",
          "org.apache.spark.sql.expressions.UserDefinedAggregateFunction",
          "org.apache.spark.sql.connector.catalog.functions.BoundFunction",
          "org.apache.hadoop.hive.ql.exec.UDF",
          "org.apache.hadoop.hive.ql.udf.generic.");
  private static final int CLASSES_MAX = 5000;

  private JvmCode() {}

  /** Is it something whose code decides what rows are? Collections are functions for Scala, and are not meant. */
  static boolean isFunction(Object value) {
    if (value instanceof scala.collection.Iterable<?> || value instanceof scala.collection.IterableOnce<?>) {
      return false;
    }
    boolean isPlatform = isPlatform(value.getClass().getName());
    return isLambda(value) || !isPlatform && isOfKind(value.getClass());
  }

  /** Equal in every JVM for equal code. */
  static String identity(Object function) {
    MessageDigest digest = PlanShape.sha256();
    tell(function, digest, 0);
    return HexFormat.of().formatHex(digest.digest(), 0, 8);
  }

  private static void tell(Object function, MessageDigest digest, int depth) {
    SerializedLambda lambda = isLambda(function) ? lambdaOf(function) : null;
    if (lambda == null) {
      say(digest, PlanShape.name(function));
      classes(PlanShape.name(function), function.getClass().getClassLoader(), digest);
      if (!isPlatform(function.getClass().getName()) && !isLambda(function)) {
        digest.update(serialised(function));
      }
      return;
    }
    say(digest, lambda.getImplClass() + "." + lambda.getImplMethodName() + lambda.getImplMethodSignature());
    classes(lambda.getImplClass().replace('/', '.'), function.getClass().getClassLoader(), digest);
    for (int i = 0; i < lambda.getCapturedArgCount(); i++) {
      Object held = lambda.getCapturedArg(i);
      if (held == null || held instanceof Number || held instanceof CharSequence || held instanceof Boolean || held instanceof Character) {
        say(digest, String.valueOf(held));
      } else if (depth < 8 && (isLambda(held) || !isPlatform(held.getClass().getName()))) {
        tell(held, digest, depth + 1);
      } else {
        say(digest, PlanShape.name(held));
      }
    }
  }

  private static void say(MessageDigest digest, String text) {
    digest.update(text.getBytes(java.nio.charset.StandardCharsets.UTF_8));
    digest.update((byte) 0);
  }

  private static boolean isLambda(Object value) {
    return value.getClass().getName().contains("$$Lambda");
  }

  private static boolean isPlatform(String name) {
    return name.startsWith("[") || PLATFORM.stream().anyMatch(name::startsWith);
  }

  private static boolean isOfKind(Class<?> type) {
    for (Class<?> one = type; one != null; one = one.getSuperclass()) {
      String name = one.getName();
      if (FUNCTIONS.stream().anyMatch(name::startsWith)) {
        return true;
      }
      for (Class<?> face : one.getInterfaces()) {
        if (isOfKind(face)) {
          return true;
        }
      }
    }
    return false;
  }

  private static SerializedLambda lambdaOf(Object function) {
    try {
      Method replace = function.getClass().getDeclaredMethod("writeReplace");
      replace.setAccessible(true);
      return replace.invoke(function) instanceof SerializedLambda lambda ? lambda : null;
    } catch (ReflectiveOperationException | RuntimeException e) {
      return null;
    }
  }

  /** What an object holds. One that cannot be serialised could not be sent to a worker either: it counts by its class. */
  private static byte[] serialised(Object function) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
      out.writeObject(function);
    } catch (IOException | RuntimeException e) {
      return new byte[0];
    }
    return bytes.toByteArray();
  }

  /** The bytes of a class and of all that it names, by their names. */
  private static void classes(String first, ClassLoader loader, MessageDigest digest) {
    Map<String, byte[]> found = new TreeMap<>();
    Deque<String> todo = new ArrayDeque<>(List.of(first));
    while (!todo.isEmpty() && found.size() < CLASSES_MAX) {
      String name = todo.pop();
      if (isPlatform(name) || found.containsKey(name)) {
        continue;
      }
      byte[] bytes = bytesOf(name, loader);
      found.put(name, bytes);
      todo.addAll(named(bytes));
    }
    for (Map.Entry<String, byte[]> one : found.entrySet()) {
      say(digest, one.getKey());
      digest.update(one.getValue());
    }
  }

  private static byte[] bytesOf(String name, ClassLoader loader) {
    String path = name.replace('.', '/') + ".class";
    ClassLoader from = loader != null ? loader : Thread.currentThread().getContextClassLoader();
    try (InputStream in = from.getResourceAsStream(path)) {
      return in == null ? new byte[0] : in.readAllBytes();
    } catch (IOException e) {
      return new byte[0];
    }
  }

  /** The classes that a class file names in its table of constants. */
  private static List<String> named(byte[] file) {
    List<String> names = new ArrayList<>();
    if (file.length == 0) {
      return names;
    }
    try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(file))) {
      in.readLong();
      int count = in.readUnsignedShort();
      String[] texts = new String[count];
      List<Integer> classes = new ArrayList<>();
      for (int i = 1; i < count; i++) {
        int kind = in.readUnsignedByte();
        switch (kind) {
          case 1 -> texts[i] = in.readUTF();
          case 7 -> classes.add(in.readUnsignedShort());
          case 8, 16, 19, 20 -> in.skipBytes(2);
          case 15 -> in.skipBytes(3);
          case 5, 6 -> {
            in.skipBytes(8);
            i++;
          }
          default -> in.skipBytes(4);
        }
      }
      for (int index : classes) {
        String name = texts[index].replace('/', '.');
        names.add(name.startsWith("[") ? name.replaceAll("^\\[+L?|;$", "") : name);
      }
    } catch (IOException e) {
      return names;
    }
    return names;
  }
}
