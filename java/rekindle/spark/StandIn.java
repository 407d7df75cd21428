// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.catalog.GlobalTempViewManager;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Range;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;

import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * The files of a kept result that is not there yet: none. A step is built over stand-ins, and the plan that comes of it is executed with files in their
 * place, so that the step's function is not called again.
 *
 * <p>Files take the place of stand-ins only where the plan is proved to be the one that the function would give over these files:
 *
 * <ol>
 *   <li>Each result that is given is read by the plan, and no other one is. Its schema and its buckets are those of the stand-in.
 *   <li>Every leaf of the plan, also those of its subqueries, is known: an RDD may have been made from a stand-in, and would be empty for ever.
 *   <li>Spark has no cached rows for any part of the plan: what was cached over a stand-in is not cached over files.
 * </ol>
 *
 * <p>Whether a function asked a stand-in for its files or its size, or left a view of the whole application, is told by `traces`, and judged by the caller.
 */
public final class StandIn extends CommittedFiles {
  private static final AtomicLong QUESTIONS = new AtomicLong();

  public StandIn(String place) {
    super(place, "");
  }

  /** How often any stand-in was asked for its files or its size. */
  public static long questions() {
    return QUESTIONS.get();
  }

  /**
   * What a function changes while it is called over stand-ins, if it must be called over real files too: the number of questions, and the views of the
   * whole application, which others read after it.
   */
  public static String traces(SparkSession session) {
    GlobalTempViewManager views = session.sharedState().globalTempViewManager();
    List<String> lines = new ArrayList<>(List.of(String.valueOf(questions())));
    for (String name : CollectionConverters.asJava(views.listViewNames("*"))) {
      views.get(name).foreach(view -> lines.add(name + "\t" + System.identityHashCode(view)));
    }
    return String.join("\n", lines);
  }

  /** Whether a physical plan reads a stand-in, however deep: Spark's own words name the class of each scan's files. */
  public static boolean isRead(SparkPlan plan) {
    return plan.toString().contains("Location: " + StandIn.class.getSimpleName() + "(");
  }

  @Override
  public Seq<PartitionDirectory> listFiles(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
    QUESTIONS.incrementAndGet();
    return super.listFiles(partitionFilters, dataFilters);
  }

  @Override
  public String[] inputFiles() {
    QUESTIONS.incrementAndGet();
    return super.inputFiles();
  }

  @Override
  public long sizeInBytes() {
    QUESTIONS.incrementAndGet();
    return super.sizeInBytes();
  }

  /** The plan with files in place of its stand-ins; null where that is not proved to be the step's plan over these files. `scans` of them are by place. */
  public static Dataset<Row> replaced(SparkSession session, QueryExecution execution, Map<String, QueryExecution> scans) {
    Map<String, HadoopFsRelation> read = new HashMap<>();
    scans.forEach((place, scan) -> read.put(place, (HadoopFsRelation) ((LogicalRelation) scan.analyzed()).relation()));
    LogicalPlan plan = execution.analyzed();
    Set<String> found = new TreeSet<>();
    for (LogicalPlan node : Sources.nodes(plan)) {
      if (node.children().isEmpty() && !isKnown(node)) {
        return null;
      }
      HadoopFsRelation stand = standing(node);
      if (stand != null) {
        HadoopFsRelation files = read.get(place(stand));
        if (files == null || !files.dataSchema().equals(stand.dataSchema()) || !files.bucketSpec().equals(stand.bucketSpec())) {
          return null;
        }
        found.add(place(stand));
      }
    }
    if (!found.equals(read.keySet()) || isCached(execution)) {
      return null;
    }
    LogicalPlan made = plan.transformWithSubqueries(new Replaced(read));
    for (LogicalPlan node : Sources.nodes(made)) {
      if (standing(node) != null) {
        throw new IllegalStateException("a stand-in is left in the plan: " + node);
      }
    }
    made.setAnalyzed();
    return Dataset.ofRows(session, made);
  }

  private static boolean isKnown(LogicalPlan leaf) {
    return leaf instanceof LogicalRelation relation && relation.relation() instanceof HadoopFsRelation
        || leaf instanceof LocalRelation
        || leaf instanceof OneRowRelation
        || leaf instanceof Range
        || leaf instanceof CTERelationRef;
  }

  private static boolean isCached(QueryExecution execution) {
    return Sources.nodes(execution.withCachedData()).stream().anyMatch(InMemoryRelation.class::isInstance);
  }

  private static HadoopFsRelation standing(LogicalPlan node) {
    boolean isStandIn =
        node instanceof LogicalRelation relation && relation.relation() instanceof HadoopFsRelation files && files.location() instanceof StandIn;
    return isStandIn ? (HadoopFsRelation) ((LogicalRelation) node).relation() : null;
  }

  private static String place(HadoopFsRelation stand) {
    return stand.location().rootPaths().head().toString();
  }

  /** Columns, with their ids, stay as they are: everything above a leaf names them. */
  private static final class Replaced extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private static final long serialVersionUID = 1L;
    private final transient Map<String, HadoopFsRelation> read;

    Replaced(Map<String, HadoopFsRelation> read) {
      this.read = read;
    }

    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return standing(node) != null;
    }

    @Override
    public <A extends LogicalPlan, B> B applyOrElse(A node, scala.Function1<A, B> otherwise) {
      HadoopFsRelation stand = standing(node);
      if (stand == null) {
        return otherwise.apply(node);
      }
      Object[] arguments = new Object[node.productArity()];
      for (int i = 0; i < arguments.length; i++) {
        arguments[i] = node.productElement(i);
      }
      arguments[0] = read.get(place(stand));
      @SuppressWarnings("unchecked")
      B made = (B) node.makeCopy(arguments);
      return made;
    }
  }
}
