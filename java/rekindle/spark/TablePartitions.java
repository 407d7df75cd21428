// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTablePartition;
import org.apache.spark.sql.catalyst.catalog.CatalogUtils;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.classic.SparkSession;

import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** Where the partitions of a table lie: each has a place of its own, which is changed in the catalog. No file is moved or removed. */
public final class TablePartitions {
  private TablePartitions() {}

  /** Directory, as Hive writes it, and location of each partition of a table, by turns. */
  public static String[] partitions(SparkSession session, String database, String name) throws AnalysisException {
    SessionCatalog catalog = session.sessionState().catalog();
    TableIdentifier identifier = new TableIdentifier(name, Option.apply(database));
    CatalogTable table = catalog.getTableMetadata(identifier);
    List<String> told = new ArrayList<>();
    for (CatalogTablePartition one : CollectionConverters.asJava(catalog.listPartitions(identifier, Option.empty()))) {
      told.add(directory(table, one));
      told.add(CatalogUtils.URIToString(one.location()));
    }
    return told.toArray(String[]::new);
  }

  private static String directory(CatalogTable table, CatalogTablePartition partition) {
    List<String> names = new ArrayList<>();
    for (String column : CollectionConverters.asJava(table.partitionColumnNames())) {
      names.add(ExternalCatalogUtils.getPartitionPathString(column, partition.spec().apply(column)));
    }
    return String.join("/", names);
  }

  /**
   * Where partitions of a table lie from now on: a line for each, its directory, a tab, its location. Those without a location are not of the table any
   * more; their files stay.
   */
  public static void movePartitions(SparkSession session, String database, String name, String lines)
      throws ReflectiveOperationException, AnalysisException {
    SessionCatalog catalog = session.sessionState().catalog();
    TableIdentifier identifier = new TableIdentifier(name, Option.apply(database));
    CatalogTable table = catalog.getTableMetadata(identifier);
    Map<String, CatalogTablePartition> there = new HashMap<>();
    for (CatalogTablePartition one : CollectionConverters.asJava(catalog.listPartitions(identifier, Option.empty()))) {
      there.put(directory(table, one), one);
    }
    List<CatalogTablePartition> made = new ArrayList<>();
    List<CatalogTablePartition> moved = new ArrayList<>();
    List<scala.collection.immutable.Map<String, String>> gone = new ArrayList<>();
    for (String line : lines.lines().toList()) {
      int tab = line.indexOf('\t');
      CatalogTablePartition old = there.get(line.substring(0, tab));
      String location = line.substring(tab + 1);
      if (location.isEmpty()) {
        if (old != null) {
          gone.add(old.spec());
        }
        continue;
      }
      Object uri = Option.apply(CatalogUtils.stringToURI(location));
      CatalogStorageFormat storage = (CatalogStorageFormat) Publishing.with(old == null ? table.storage() : old.storage(), Map.of("locationUri", uri));
      if (old == null) {
        made.add(
            new CatalogTablePartition(
                spec(line.substring(0, tab)), storage, SparkLine.immutable(Map.of()), System.currentTimeMillis(), -1L, Option.empty()));
      } else {
        moved.add((CatalogTablePartition) Publishing.with(old, Map.of("storage", storage, "stats", Option.empty())));
      }
    }
    if (!made.isEmpty()) {
      catalog.createPartitions(identifier, SparkObjects.seq(made), true);
    }
    if (!moved.isEmpty()) {
      catalog.alterPartitions(identifier, SparkObjects.seq(moved));
    }
    if (!gone.isEmpty()) {
      catalog.dropPartitions(identifier, SparkObjects.seq(gone), true, false, true);
    }
    catalog.refreshTable(identifier);
  }

  private static scala.collection.immutable.Map<String, String> spec(String directory) {
    Map<String, String> values = new LinkedHashMap<>();
    for (String one : directory.split("/")) {
      int equals = one.indexOf('=');
      values.put(ExternalCatalogUtils.unescapePathName(one.substring(0, equals)), ExternalCatalogUtils.unescapePathName(one.substring(equals + 1)));
    }
    return SparkLine.immutable(values);
  }
}
