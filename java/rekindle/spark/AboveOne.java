// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.util.List;

import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.SparkPlan;

import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** A node of ours in a physical plan, with the columns of the one node below it. It stands there for one execution, and is shown nowhere. */
abstract class AboveOne extends SparkPlan {
  private static final long serialVersionUID = 1L;
  protected final SparkPlan child;

  AboveOne(SparkPlan child) {
    this.child = child;
  }

  /** The same above another node. */
  abstract SparkPlan above(SparkPlan made);

  @Override
  public Seq<Attribute> output() {
    return child.output();
  }

  @Override
  public Partitioning outputPartitioning() {
    return child.outputPartitioning();
  }

  @Override
  public Seq<SparkPlan> children() {
    return CollectionConverters.asScala(List.of(child)).toSeq();
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> made) {
    return above(made.head());
  }

  @Override
  public Object productElement(int at) {
    return child;
  }

  @Override
  public int productArity() {
    return 1;
  }

  @Override
  public boolean canEqual(Object other) {
    return other != null && getClass() == other.getClass();
  }
}
