// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Offset;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RebalancePartitions;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionOperation;
import org.apache.spark.sql.catalyst.plans.logical.ResolvedHint;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UnaryNode;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.plans.logical.WithCTE;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;

import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * What a reader can observe of a step's DataFrame beside its rows, and the same again over the stored rows of the step.
 *
 * <p>Rules:
 *
 * <ol>
 *   <li>Names and qualifiers of columns are those of the step's own plan, also where two columns have one name.
 *   <li>The operators that decide order and partitions (a sort, a repartition, a coalesce) stand above the stored rows again. Spark leaves out what the
 *       rows make superfluous; {@link Observed} leaves out what nothing above can observe.
 *   <li>Where such an operator cannot be written over the stored columns, `lost` says why. Nothing is guessed.
 * </ol>
 */
public final class KeptFrame {
  /** Marks the operators that stand above stored rows again. */
  static final TreeNodeTag<Boolean> RESTORED = new TreeNodeTag<>("rekindle.restored");

  private final List<Attribute> output;
  private final List<LogicalPlan> deciding = new ArrayList<>();
  private String lost = "";

  private KeptFrame(LogicalPlan plan) {
    output = CollectionConverters.asJava(plan.output());
  }

  /** Of a step's frame. */
  public static KeptFrame of(QueryExecution execution) {
    KeptFrame frame = new KeptFrame(execution.analyzed());
    frame.look(execution.analyzed());
    return frame;
  }

  /** Why a reader would see another order or other partitions over the stored rows; empty if it would not. */
  public String lost() {
    return lost;
  }

  /**
   * What is computed to be stored: the frame without restored operators that nothing observes, and with column names that differ. Null if that is the
   * frame itself.
   */
  public static Dataset<Row> stored(SparkSession session, QueryExecution execution, boolean isPublished) {
    LogicalPlan plan = execution.analyzed();
    LogicalPlan made = Observed.simplified(plan, isPublished);
    List<String> names = new KeptFrame(plan).storedNames(session.sessionState().conf().caseSensitiveAnalysis());
    if (!names.isEmpty()) {
      List<NamedExpression> columns = new ArrayList<>();
      for (int i = 0; i < names.size(); i++) {
        columns.add(new Alias(made.output().apply(i), names.get(i), NamedExpression.newExprId(), none(), Option.empty(), none()));
      }
      made = new Project(CollectionConverters.asScala(columns).toSeq(), made);
    }
    return made == plan ? null : Dataset.ofRows(session, made);
  }

  /** The names that the columns are stored with: as they are, but no two alike. Empty if that changes none. */
  private List<String> storedNames(boolean isCaseSensitive) {
    Set<String> taken = new HashSet<>();
    output.forEach(column -> taken.add(folded(column.name(), isCaseSensitive)));
    Set<String> seen = new HashSet<>();
    List<String> names = new ArrayList<>();
    boolean isChanged = false;
    for (Attribute column : output) {
      String name = column.name();
      for (int number = 2; !seen.add(folded(name, isCaseSensitive)); number++) {
        isChanged = true;
        String next = column.name() + "_" + number;
        if (taken.add(folded(next, isCaseSensitive))) {
          name = next;
        }
      }
      names.add(name);
    }
    return isChanged ? names : List.of();
  }

  /** The frame over its stored rows, whose columns are in the same order. Null if that is the rows themselves. */
  public Dataset<Row> over(SparkSession session, QueryExecution stored) {
    LogicalPlan made = over(stored.analyzed());
    return made == stored.analyzed() ? null : Dataset.ofRows(session, made);
  }

  private LogicalPlan over(LogicalPlan scan) {
    LogicalPlan made = named(scan);
    Map<ExprId, Attribute> now = new HashMap<>();
    for (int i = 0; i < output.size(); i++) {
      now.put(output.get(i).exprId(), made.output().apply(i));
    }
    for (int i = deciding.size() - 1; i >= 0; i--) {
      made = deciding.get(i).withNewChildren(CollectionConverters.asScala(List.of(made)).toSeq());
      made = made.mapExpressions(expression -> expression.transform(new Renamed(now)));
      made.setTagValue(RESTORED, true);
    }
    return made;
  }

  /** The stored columns under the names, qualifiers and ids of the frame's own: a column that a reader got from another frame names the same one. */
  private LogicalPlan named(LogicalPlan scan) {
    List<Attribute> stored = CollectionConverters.asJava(scan.output());
    Map<ExprId, Attribute> now = new HashMap<>();
    List<NamedExpression> columns = new ArrayList<>();
    boolean isRenamed = false;
    for (int i = 0; i < output.size(); i++) {
      Attribute column = output.get(i);
      isRenamed |= !stored.get(i).name().equals(column.name());
      now.put(stored.get(i).exprId(), stored.get(i).withExprId(column.exprId()).withQualifier(column.qualifier()));
      columns.add(new Alias(stored.get(i), column.name(), column.exprId(), column.qualifier(), Option.empty(), none()));
    }
    if (!isRenamed) {
      return scan.mapExpressions(expression -> expression.transform(new Renamed(now)));
    }
    return new Project(CollectionConverters.asScala(distinct(columns)).toSeq(), scan);
  }

  /** One column that stands in two places is one column, as it was. */
  private static List<NamedExpression> distinct(List<NamedExpression> columns) {
    Map<ExprId, NamedExpression> seen = new HashMap<>();
    List<NamedExpression> found = new ArrayList<>();
    for (NamedExpression column : columns) {
      NamedExpression first = seen.putIfAbsent(column.exprId(), column);
      found.add(first == null ? column : first);
    }
    return found;
  }

  /** Down to what decides order and partitions; `seen` gives the output column that a column on the way becomes. */
  private void look(LogicalPlan plan) {
    Map<ExprId, Attribute> seen = new HashMap<>();
    output.forEach(column -> seen.putIfAbsent(column.exprId(), column));
    boolean isOpaque = false;
    boolean isLimited = false;
    LogicalPlan node = plan;
    while (true) {
      if (node instanceof Sort || node instanceof RepartitionOperation) {
        boolean isGlobal = node instanceof Sort sort && sort.global();
        if (isLimited && !isGlobal) {
          return; // A limit gathers its rows in one partition.
        }
        if (isOpaque) {
          lost = words(node) + " below an operator that makes other rows of them";
          return;
        }
        if (!add(node, seen) || !(node instanceof Sort) || isGlobal) {
          return;
        }
      } else if (node instanceof Project project) {
        through(project, seen);
      } else if (node instanceof GlobalLimit || node instanceof LocalLimit || node instanceof Offset) {
        isLimited = true;
      } else if (isRowLocal(node)) {
        isOpaque = true;
      } else if (!isTransparent(node)) {
        return;
      }
      node = node instanceof WithCTE with ? with.plan() : node.children().head();
    }
  }

  private boolean add(LogicalPlan node, Map<ExprId, Attribute> seen) {
    for (Attribute column : CollectionConverters.asJava(node.references().toSeq())) {
      if (!seen.containsKey(column.exprId())) {
        lost = words(node) + " by " + column.name() + ", a column that it does not return";
        deciding.clear();
        return false;
      }
    }
    deciding.add(node.mapExpressions(expression -> expression.transform(new Renamed(seen))));
    return true;
  }

  private static String words(LogicalPlan node) {
    return node instanceof Sort sort ? (sort.global() ? "it is sorted" : "it is sorted within partitions") : "it is repartitioned";
  }

  private static void through(Project project, Map<ExprId, Attribute> seen) {
    Map<ExprId, Attribute> below = new HashMap<>();
    for (NamedExpression item : CollectionConverters.asJava(project.projectList())) {
      Attribute shown = seen.get(item.exprId());
      if (shown != null && item instanceof AttributeReference column) {
        below.putIfAbsent(column.exprId(), shown);
      } else if (shown != null && item instanceof Alias alias && alias.child() instanceof AttributeReference column) {
        below.putIfAbsent(column.exprId(), shown);
      }
    }
    seen.clear();
    seen.putAll(below);
  }

  /** Leaves rows, their order and their partitions as they are. A rebalance only asks for sizes. */
  private static boolean isTransparent(LogicalPlan node) {
    return node instanceof Filter
        || node instanceof SubqueryAlias
        || node instanceof ResolvedHint
        || node instanceof View
        || node instanceof WithCTE
        || node instanceof RebalancePartitions;
  }

  /** Makes rows of rows, in their order and partition, in a way that nobody can look into. */
  private static boolean isRowLocal(LogicalPlan node) {
    return node instanceof UnaryNode && Observed.ROW_LOCAL.contains(node.getClass().getSimpleName());
  }

  private static String folded(String name, boolean isCaseSensitive) {
    return isCaseSensitive ? name : name.toLowerCase(Locale.ROOT);
  }

  private static Seq<String> none() {
    return CollectionConverters.asScala(Collections.<String>emptyList()).toSeq();
  }

  /** Columns by other columns. */
  private static final class Renamed extends AbstractPartialFunction<Expression, Expression> {
    private static final long serialVersionUID = 1L;
    private final transient Map<ExprId, Attribute> columns;

    Renamed(Map<ExprId, Attribute> columns) {
      this.columns = columns;
    }

    @Override
    public boolean isDefinedAt(Expression expression) {
      return expression instanceof AttributeReference column && columns.containsKey(column.exprId());
    }

    @Override
    public <A extends Expression, B> B applyOrElse(A expression, scala.Function1<A, B> otherwise) {
      if (isDefinedAt(expression)) {
        @SuppressWarnings("unchecked")
        B found = (B) columns.get(((AttributeReference) expression).exprId());
        return found;
      }
      return otherwise.apply(expression);
    }
  }
}
