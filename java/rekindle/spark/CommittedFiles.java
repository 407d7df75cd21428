// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.util.ArrayList;
import java.util.List;

import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;

import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The committed files of one kept result, as the journal names them. Nothing is listed: a file that no journal knows
 * is not seen, and a hundred thousand partitions cost no request before the tasks run.
 */
public class CommittedFiles implements FileIndex {
  private final Path root;
  final FileStatus[] files;
  private final long bytes;

  /** `names` holds one line per file: path below the root, tab, length. */
  public CommittedFiles(String root, String names) {
    this.root = new Path(root);
    List<FileStatus> found = new ArrayList<>();
    long sum = 0;
    for (String line : names.split("\n")) {
      if (!line.isEmpty()) {
        int tab = line.indexOf('\t');
        long length = Long.parseLong(line.substring(tab + 1));
        sum += length;
        Path path = new Path(this.root, line.substring(0, tab));
        found.add(new FileStatus(length, false, 1, Math.max(length, 1), 0L, path));
      }
    }
    this.files = found.toArray(new FileStatus[0]);
    this.bytes = sum;
  }

  @Override
  public Seq<Path> rootPaths() {
    return CollectionConverters.asScala(List.of(root)).toSeq();
  }

  @Override
  public Seq<PartitionDirectory> listFiles(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
    return CollectionConverters.asScala(List.of(PartitionDirectory.apply(InternalRow.empty(), files))).toSeq();
  }

  @Override
  public String[] inputFiles() {
    String[] names = new String[files.length];
    for (int i = 0; i < files.length; i++) {
      names[i] = files[i].getPath().toString();
    }
    return names;
  }

  @Override
  public void refresh() {
    // Committed files never change.
  }

  @Override
  public long sizeInBytes() {
    return bytes;
  }

  @Override
  public StructType partitionSchema() {
    return new StructType();
  }
}
