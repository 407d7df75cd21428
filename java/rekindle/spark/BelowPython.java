// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.util.ArrayList;
import java.util.List;

import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.TimestampType;

import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The exchange of a kept result, put below Python that works row by row: what Python made is then kept partition by partition, and one bad row costs one
 * partition. Above it, one bad row would stop every partition, and a dead driver would lose all that Python did.
 *
 * <p>Only where the exchange then moves nothing wider than above: each column that is used up must be narrow (a number, a date, a time). Not past an
 * expression that is another one in another partition.
 */
public final class BelowPython {
  private BelowPython() {}

  /** The plan with its exchange below the lowest Python, or null where there is none, or the keys are made above it, or more bytes would move. */
  public static LogicalPlan repartitioned(LogicalPlan plan, List<String> keys, int partitions) {
    List<Attribute> wanted = columns(plan, keys);
    if (wanted == null) {
      return null;
    }
    List<LogicalPlan> path = new ArrayList<>();
    int end = 0;
    LogicalPlan node = plan;
    while (isRowByRow(node) && has(child(node), wanted)) {
      path.add(node);
      if (node instanceof Project && hasPython(node)) {
        end = path.size();
      }
      node = child(node);
    }
    if (end == 0 || !isNarrower(path.get(end - 1), plan)) {
      return null;
    }
    return placed(child(path.get(end - 1)), wanted, partitions, path.subList(0, end));
  }

  /**
   * The plan with an exchange as low as every row above it stays in its partition, where Spark leaves it out if the rows lie that way without it. Null if
   * there is not one column for each key.
   */
  public static LogicalPlan required(LogicalPlan plan, List<String> keys, int partitions) {
    List<Attribute> wanted = columns(plan, keys);
    if (wanted == null) {
      return null;
    }
    List<LogicalPlan> path = new ArrayList<>();
    LogicalPlan node = plan;
    while (staysInPlace(node) && has(child(node), wanted)) {
      path.add(node);
      node = child(node);
    }
    return placed(node, wanted, partitions, path);
  }

  private static LogicalPlan placed(LogicalPlan below, List<Attribute> keys, int partitions, List<LogicalPlan> above) {
    List<Expression> by = new ArrayList<>(keys);
    LogicalPlan made =
        new RepartitionByExpression(CollectionConverters.asScala(by).toSeq(), below, Option.apply(partitions), Option.empty());
    for (int at = above.size() - 1; at >= 0; at--) {
      made = above.get(at).withNewChildren(CollectionConverters.asScala(List.of(made)).toSeq());
    }
    return made;
  }

  /** The one column of each name, as it is written or else in other cases; null if there is none, or several. */
  private static List<Attribute> columns(LogicalPlan plan, List<String> names) {
    List<Attribute> found = new ArrayList<>();
    List<Attribute> all = CollectionConverters.asJava(plan.output());
    for (String name : names) {
      List<Attribute> called = all.stream().filter(one -> one.name().equals(name)).toList();
      if (called.isEmpty()) {
        called = all.stream().filter(one -> one.name().equalsIgnoreCase(name)).toList();
      }
      if (called.size() != 1) {
        return null;
      }
      found.add(called.get(0));
    }
    return found;
  }

  private static boolean staysInPlace(LogicalPlan node) {
    boolean isLocalSort = node instanceof Sort sort && !sort.global();
    return node instanceof Project || node instanceof SubqueryAlias || node instanceof Filter || isLocalSort;
  }

  private static boolean isRowByRow(LogicalPlan node) {
    boolean is = node instanceof Project || node instanceof SubqueryAlias || (node instanceof Filter && !hasPython(node));
    return is && CollectionConverters.asJava(node.expressions()).stream().allMatch(Expression::deterministic);
  }

  private static LogicalPlan child(LogicalPlan node) {
    return node.children().head();
  }

  private static boolean has(LogicalPlan node, List<Attribute> wanted) {
    return wanted.stream().allMatch(node.outputSet()::contains);
  }

  private static boolean hasPython(LogicalPlan node) {
    return CollectionConverters.asJava(node.expressions()).stream()
        .anyMatch(expression -> expression.exists(part -> part instanceof PythonUDF));
  }

  /** Of the columns that the lowest Python operator reads, those that do not come out at the top are narrow. */
  private static boolean isNarrower(LogicalPlan python, LogicalPlan top) {
    return CollectionConverters.asJava(python.references().toSeq()).stream()
        .allMatch(column -> top.outputSet().contains(column) || isNarrow(column.dataType()));
  }

  private static boolean isNarrow(DataType type) {
    return type instanceof NumericType || type instanceof BooleanType || type instanceof DateType || type instanceof TimestampType;
  }
}
