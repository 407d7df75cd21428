// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import scala.collection.JavaConverters;

/** What Scala 2.13 has as scala.jdk.javaapi.CollectionConverters: views of a collection in the other language. */
public final class CollectionConverters {
  private CollectionConverters() {}

  public static <A> java.util.List<A> asJava(scala.collection.Seq<A> found) {
    return JavaConverters.seqAsJavaList(found);
  }

  public static <A> java.util.Set<A> asJava(scala.collection.Set<A> found) {
    return JavaConverters.setAsJavaSet(found);
  }

  public static <K, V> java.util.Map<K, V> asJava(scala.collection.Map<K, V> found) {
    return JavaConverters.mapAsJavaMap(found);
  }

  public static <A> java.util.Iterator<A> asJava(scala.collection.Iterator<A> found) {
    return JavaConverters.asJavaIterator(found);
  }

  public static <A> java.lang.Iterable<A> asJava(scala.collection.Iterable<A> found) {
    return JavaConverters.asJavaIterable(found);
  }

  public static <A> scala.collection.mutable.Buffer<A> asScala(java.util.List<A> found) {
    return JavaConverters.asScalaBuffer(found);
  }

  public static <A> scala.collection.Iterator<A> asScala(java.util.Iterator<A> found) {
    return JavaConverters.asScalaIterator(found);
  }

  public static <K, V> scala.collection.mutable.Map<K, V> asScala(java.util.Map<K, V> found) {
    return JavaConverters.mapAsScalaMap(found);
  }
}
