// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;

import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Rows that cannot be read, and why: an error for whoever plans to read them, and nothing for who does not. */
record FailingFiles(RuntimeException why) implements FileIndex {
  @Override
  public Seq<Path> rootPaths() {
    return CollectionConverters.asScala(java.util.List.<Path>of()).toSeq();
  }

  @Override
  public Seq<PartitionDirectory> listFiles(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
    throw why;
  }

  @Override
  public String[] inputFiles() {
    throw why;
  }

  @Override
  public void refresh() {
    // They stay unreadable.
  }

  @Override
  public long sizeInBytes() {
    return 0;
  }

  @Override
  public StructType partitionSchema() {
    return new StructType();
  }
}
