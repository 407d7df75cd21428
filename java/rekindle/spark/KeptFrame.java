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
import org.apache.spark.sql.catalyst.plans.logical.CTERelationDef;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Offset;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RebalancePartitions;
import org.apache.spark.sql.catalyst.plans.logical.Repartition;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionOperation;
import org.apache.spark.sql.catalyst.plans.logical.ResolvedHint;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UnaryNode;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.plans.logical.WithCTE;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

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
  private boolean isSingle;
  private String lost = "";
  private String lostByKeys = "";
  private boolean hidesOrder;

  private KeptFrame(LogicalPlan plan) {
    output = CollectionConverters.asJava(plan.output());
  }

  /** Of a step's frame. */
  public static KeptFrame of(QueryExecution execution) {
    KeptFrame frame = new KeptFrame(execution.analyzed());
    frame.look(execution.analyzed());
    return frame;
  }

  /** Why a reader would see another order or other partitions over the stored rows; empty if it would not. `isKeyed`: they are stored by keys. */
  public String lost(boolean isKeyed) {
    return isKeyed && lost.isEmpty() ? lostByKeys : lost;
  }

  /** Whether the frame is sorted as a whole, and its stored rows cannot be sorted that way again. `isKeyed`: they are stored by keys. */
  public boolean hidesOrder(boolean isKeyed) {
    return hidesOrder || (isKeyed && !lostByKeys.isEmpty());
  }

  /** Whether all rows are in one partition. */
  public boolean isSingle() {
    return isSingle;
  }

  /**
   * What is computed to be stored: the frame without restored operators that nothing observes, and with column names that differ. Null if that is the
   * frame itself. `leavesOrder`: a sort that its readers get above the stored rows is left to them.
   */
  public static Dataset<Row> stored(SparkSession session, QueryExecution execution, boolean isPublished, boolean leavesOrder) {
    LogicalPlan plan = execution.analyzed();
    boolean isLeft = leavesOrder && !isPublished && KeptFrame.of(execution).restoresOrder();
    LogicalPlan made = Observed.simplified(isLeft ? unsorted(plan) : plan, isPublished);
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

  /** Whether readers get a sort of the whole frame again. */
  private boolean restoresOrder() {
    return lost.isEmpty() && deciding.stream().anyMatch(node -> node instanceof Sort sort && sort.global());
  }

  /** Without the sort that decides the order of a plan, where nothing above it sees in which order rows come. */
  private static LogicalPlan unsorted(LogicalPlan plan) {
    if (plan instanceof Sort sort && sort.global()) {
      return sort.child();
    }
    if (!(plan instanceof Project || plan instanceof Filter || plan instanceof SubqueryAlias || plan instanceof View) || Observed.seesOrder(plan)) {
      return plan;
    }
    LogicalPlan made = unsorted(plan.children().head());
    return made == plan.children().head() ? plan : plan.withNewChildren(CollectionConverters.asScala(List.of(made)).toSeq());
  }

  /** The names of columns that a file cannot hold beside each other, as often as they occur. */
  public static List<String> doubledNames(SparkSession session, QueryExecution execution) {
    boolean isCaseSensitive = session.sessionState().conf().caseSensitiveAnalysis();
    List<Attribute> columns = CollectionConverters.asJava(execution.analyzed().output());
    Map<String, Integer> counts = new HashMap<>();
    columns.forEach(column -> counts.merge(folded(column.name(), isCaseSensitive), 1, Integer::sum));
    return columns.stream().map(Attribute::name).filter(name -> counts.get(folded(name, isCaseSensitive)) > 1).toList();
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
    if (!isRenamed && scan instanceof LogicalRelation) {
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
    Map<Long, CTERelationDef> definitions = new HashMap<>();
    boolean isOpaque = false;
    LogicalPlan node = plan;
    while (node != null) {
      if (node instanceof Sort sort) {
        if (isSingle || isOpaque || !add(sort, seen) || sort.global()) {
          end(sort, isOpaque, seen);
          return;
        }
      } else if (node instanceof RepartitionOperation moved) {
        if (isSingle || moved.numPartitions() == 1) {
          isSingle = true; // Whatever lies below a shuffle into one partition, its order is gone.
          if (moved.shuffle()) {
            break;
          }
        } else if (isOpaque || !add(moved, seen) || moved.shuffle()) {
          end(moved, isOpaque, seen);
          return;
        }
      } else if (node instanceof Project project) {
        through(project, seen);
      } else if (node instanceof GlobalLimit || node instanceof LocalLimit || node instanceof Offset) {
        isSingle = true; // A limit gathers its rows in one partition, in their order.
      } else if (node instanceof WithCTE with) {
        CollectionConverters.asJava(with.cteDefs()).forEach(one -> definitions.put(one.id(), one));
        node = with.plan();
        continue;
      } else if (node instanceof CTERelationRef reference && definitions.containsKey(reference.cteId())) {
        node = definitions.get(reference.cteId()).child();
        renumber(reference.output(), node.output(), seen);
        continue;
      } else if (node instanceof Union) {
        uniting(node);
        break;
      } else if (isRowLocal(node)) {
        isOpaque = true;
      } else if (!isTransparent(node)) {
        break;
      }
      node = node.children().head();
    }
    if (isSingle) {
      inOne();
    }
  }

  /** At the operator that decides the order of one partition, or that cannot be written over the stored columns. */
  private void end(LogicalPlan node, boolean isOpaque, Map<ExprId, Attribute> seen) {
    boolean isSorted = deciding.stream().anyMatch(Sort.class::isInstance);
    if (!isSingle) {
      if (isOpaque) {
        lose(node, " below an operator that makes other rows of them");
      }
      return;
    }
    if (!isSorted && node instanceof Sort sort) {
      boolean isKnown = sort.global() && !isOpaque && hidden(sort, seen) == null;
      if (isKnown) {
        LogicalPlan within = SparkLine.within(sort);
        deciding.add(within.mapExpressions(expression -> expression.transform(new Renamed(seen))));
      } else {
        lostByKeys = words(node) + ", in a way that its columns do not tell";
      }
    }
    inOne();
  }

  /** One partition is one file, which is read in its order. */
  private void inOne() {
    deciding.add(new Repartition(1, false, new OneRowRelation()));
  }

  /** Spark reads the parts of a union one after the other. */
  private void uniting(LogicalPlan union) {
    for (LogicalPlan child : CollectionConverters.asJava(union.children())) {
      KeptFrame part = new KeptFrame(child);
      part.look(child);
      if (!part.lost.isEmpty() || part.deciding.stream().anyMatch(Sort.class::isInstance)) {
        String what = "it unites rows that are sorted";
        if (isSingle) {
          lostByKeys = what;
        } else {
          lost = what;
          deciding.clear();
        }
        return;
      }
    }
  }

  private void lose(LogicalPlan node, String how) {
    lost = words(node) + how;
    hidesOrder = node instanceof Sort sort && sort.global();
    deciding.clear();
  }

  private boolean add(LogicalPlan node, Map<ExprId, Attribute> seen) {
    Attribute hidden = hidden(node, seen);
    if (hidden != null) {
      lose(node, " by " + hidden.name() + ", a column that it does not return");
      return false;
    }
    deciding.add(node.mapExpressions(expression -> expression.transform(new Renamed(seen))));
    return true;
  }

  /** A column that the node needs and the frame does not return; null if there is none. */
  private static Attribute hidden(LogicalPlan node, Map<ExprId, Attribute> seen) {
    for (Attribute column : CollectionConverters.asJava(node.references().toSeq())) {
      if (!seen.containsKey(column.exprId())) {
        return column;
      }
    }
    return null;
  }

  private static void renumber(Seq<Attribute> from, Seq<Attribute> to, Map<ExprId, Attribute> seen) {
    Map<ExprId, Attribute> below = new HashMap<>();
    for (int i = 0; i < from.size(); i++) {
      Attribute shown = seen.get(from.apply(i).exprId());
      if (shown != null) {
        below.putIfAbsent(to.apply(i).exprId(), shown);
      }
    }
    goBelow(seen, below);
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
    goBelow(seen, below);
  }

  private static void goBelow(Map<ExprId, Attribute> seen, Map<ExprId, Attribute> below) {
    seen.clear();
    seen.putAll(below);
  }

  /** Leaves rows, their order and their partitions as they are. A rebalance only asks for sizes. */
  private static boolean isTransparent(LogicalPlan node) {
    return node instanceof Filter
        || node instanceof SubqueryAlias
        || node instanceof ResolvedHint
        || node instanceof View
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
