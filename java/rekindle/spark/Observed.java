// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;

import org.apache.spark.sql.catalyst.expressions.DenseRank;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InputFileBlockLength;
import org.apache.spark.sql.catalyst.expressions.InputFileBlockStart;
import org.apache.spark.sql.catalyst.expressions.InputFileName;
import org.apache.spark.sql.catalyst.expressions.RangeFrame$;
import org.apache.spark.sql.catalyst.expressions.Rank;
import org.apache.spark.sql.catalyst.expressions.SpecifiedWindowFrame;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;
import org.apache.spark.sql.catalyst.expressions.WindowExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Average;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.BROADCAST$;
import org.apache.spark.sql.catalyst.plans.logical.Distinct;
import org.apache.spark.sql.catalyst.plans.logical.Except;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.HintInfo;
import org.apache.spark.sql.catalyst.plans.logical.Intersect;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionOperation;
import org.apache.spark.sql.catalyst.plans.logical.ResolvedHint;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.plans.logical.Window;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;

import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What a plan can observe of the kept results that it reads, beside their rows: their order, their partitions, the names of their files.
 *
 * <p>An operator that is not named here observes everything. Operators that {@link KeptFrame} put above stored rows go where nothing observes what they
 * decide: the plan reads the rows as they are stored.
 */
public final class Observed {
  /** Operators that hand on, or make rows of, the rows of one partition in their order. What they see of them is their own affair. */
  static final Set<String> ROW_LOCAL =
      Set.of("MapInPandas", "MapInArrow", "MapPartitions", "MapElements", "TypedFilter", "DeserializeToObject", "SerializeFromObject",
          "AppendColumns", "Generate", "Expand", "Sample", "CollectMetrics", "PythonMapInArrow", "AttachDistributedSequence");

  private static final Flags ALL = new Flags(true, true, false);
  private static final Flags NONE = new Flags(false, false, false);

  private final List<String> found = new ArrayList<>();

  private Observed() {}

  private record Flags(boolean order, boolean partitions, boolean files) {
    Flags with(boolean readsNames) {
      return readsNames ? new Flags(order, partitions, true) : this;
    }

    Flags keepingNames(Flags above) {
      return with(above.files);
    }
  }

  /** The plan without restored operators that nothing observes. `isPublished`: its own order and partitions are observed. */
  static LogicalPlan simplified(LogicalPlan plan, boolean isPublished) {
    return new Observed().walk(plan, isPublished ? ALL : NONE);
  }

  /** One line per read of a kept result: where it is read from, then `true` or `false` for order, partitions and file names, by tabs. */
  public static String of(QueryExecution execution, boolean isPublished) {
    Observed observed = new Observed();
    observed.walk(execution.analyzed(), isPublished ? ALL : NONE);
    return String.join("\n", observed.found);
  }

  /** Whether a plan asks for an exchange that Spark leaves out where rows lie that way already: then nothing in the physical plan tells of it. */
  public static boolean asksForExchange(QueryExecution execution) {
    return execution.optimizedPlan().exists(node -> node instanceof RepartitionOperation moved && moved.shuffle());
  }

  /** Whether a join has hints to broadcast on both sides. */
  public static boolean broadcastsEither(QueryExecution execution) {
    return execution.optimizedPlan().exists(
        node -> node instanceof Join join && isBroadcast(join.hint().leftHint()) && isBroadcast(join.hint().rightHint()));
  }

  private static boolean isBroadcast(Option<HintInfo> hint) {
    return hint.isDefined() && hint.get().strategy().isDefined() && hint.get().strategy().get() instanceof BROADCAST$;
  }

  private LogicalPlan walk(LogicalPlan node, Flags above) {
    CollectionConverters.asJava(node.subqueries()).forEach(subquery -> walk(subquery, ALL));
    if (node instanceof LogicalRelation relation) {
      leaf(relation, above);
      return node;
    }
    boolean isRestored = node.getTagValue(KeptFrame.RESTORED).isDefined();
    boolean isSeen = above.partitions && !(node instanceof Sort sort && !sort.global()) || above.order && node instanceof Sort;
    if (isRestored && !isSeen) {
      return walk(node.children().head(), above);
    }
    Flags below = below(node, above).with(readsNames(node));
    List<LogicalPlan> children = new ArrayList<>();
    boolean isChanged = false;
    for (LogicalPlan child : CollectionConverters.asJava(node.children())) {
      LogicalPlan made = walk(child, below);
      isChanged |= made != child;
      children.add(made);
    }
    return isChanged ? node.withNewChildren(CollectionConverters.asScala(children).toSeq()) : node;
  }

  private void leaf(LogicalRelation relation, Flags above) {
    if (relation.relation() instanceof HadoopFsRelation files && files.location() instanceof CommittedFiles kept) {
      boolean readsMetadata = relation.output().size() > files.schema().size();
      found.add(kept.rootPaths().head() + "\t" + above.order + "\t" + above.partitions + "\t" + (above.files || readsMetadata));
    }
  }

  /** What is observed of the children of a node, if so much is observed of the node itself. */
  private static Flags below(LogicalPlan node, Flags above) {
    if (!CollectionConverters.asJava(node.expressions()).stream().allMatch(Expression::deterministic)) {
      return ALL.keepingNames(above);
    }
    if (node instanceof Project
        || node instanceof Filter
        || node instanceof SubqueryAlias
        || node instanceof ResolvedHint
        || node instanceof View
        || node instanceof Generate
        || node instanceof Union) {
      return above;
    }
    if (node instanceof Join) {
      return new Flags(false, above.partitions, above.files);
    }
    if (node instanceof Sort sort) {
      return new Flags(false, !sort.global() && above.partitions, above.files);
    }
    if (node instanceof RepartitionOperation moved) {
      return new Flags(!moved.shuffle() && above.order, !moved.shuffle(), above.files);
    }
    boolean isFree =
        node instanceof Distinct
            || node instanceof Except
            || node instanceof Intersect
            || (node instanceof Window window && ignoresOrder(window))
            || (node instanceof Aggregate aggregate && ignoresOrder(aggregate));
    return (isFree ? NONE : ALL).keepingNames(above);
  }

  /** Whether all it computes is the same in whatever order the rows come. */
  private static boolean ignoresOrder(Aggregate aggregate) {
    return CollectionConverters.asJava(aggregate.expressions()).stream()
        .noneMatch(
            expression ->
                expression.exists(
                    part ->
                        (part instanceof AggregateExpression one && !ignoresOrder(one.aggregateFunction()))
                            || part instanceof UserDefinedExpression));
  }

  /** The same, for rows of one key that come in any order, and for rows that are equal in the window's own order. */
  private static boolean ignoresOrder(Window window) {
    return CollectionConverters.asJava(window.expressions()).stream()
        .noneMatch(expression -> expression.exists(part -> part instanceof WindowExpression one && !ignoresOrder(one)));
  }

  private static boolean ignoresOrder(WindowExpression window) {
    Expression function = window.windowFunction();
    boolean isByValue =
        window.windowSpec().frameSpecification() instanceof SpecifiedWindowFrame frame && frame.frameType() instanceof RangeFrame$;
    return function instanceof Rank
        || function instanceof DenseRank
        || (isByValue && function instanceof AggregateExpression one && ignoresOrder(one.aggregateFunction()));
  }

  private static boolean ignoresOrder(AggregateFunction function) {
    if (function instanceof Sum || function instanceof Average) {
      return CollectionConverters.asJava(function.children()).stream()
          .noneMatch(child -> child.dataType() instanceof DoubleType || child.dataType() instanceof FloatType);
    }
    return function instanceof Count || function instanceof Min || function instanceof Max;
  }

  /** Whether an expression of a node may tell in which order, or in which partition, rows come. A function of the user's may count them. */
  static boolean seesOrder(LogicalPlan node) {
    return !CollectionConverters.asJava(node.subqueries()).isEmpty()
        || CollectionConverters.asJava(node.expressions()).stream()
            .anyMatch(expression -> !expression.deterministic() || expression.exists(UserDefinedExpression.class::isInstance));
  }

  private static boolean readsNames(LogicalPlan node) {
    return CollectionConverters.asJava(node.expressions()).stream()
        .anyMatch(
            expression ->
                expression.exists(
                    part -> part instanceof InputFileName || part instanceof InputFileBlockStart || part instanceof InputFileBlockLength));
  }
}
