// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;

/**
 * Names that look as if Spark had made them up, and that a user chose: an alias `a#1`, a table `sales_lambda_2`. A name that Spark makes up for a column
 * is the text of its expression; one that refers to a column of the plan is that column's.
 */
final class ChosenNames {
  private static final String VIEW_OF_A_FRAME = "_pyspark_[0-9a-f]{32}";

  private record Met(ExprId id, String text) {}

  private final List<Met> met = new ArrayList<>();
  private final Set<ExprId> columns = new HashSet<>();

  void met(String text, String masked) {
    if (!masked.equals(text)) {
      met.add(new Met(null, text));
    }
  }

  void met(NamedExpression named, String text, String masked) {
    if (named instanceof Alias alias) {
      columns.add(alias.exprId());
      if (!masked.equals(text) && !isMadeUp(alias)) {
        met.add(new Met(null, text));
      }
    } else if (!masked.equals(text)) {
      met.add(new Met(named instanceof AttributeReference ? named.exprId() : null, text));
    }
  }

  /** In the order of the plan. `drawn` are seeds that nobody chose: a name that holds one is made up. */
  List<String> chosen(List<String> drawn) {
    List<String> chosen = new ArrayList<>();
    for (Met one : met) {
      String text = one.text().replaceAll(VIEW_OF_A_FRAME, "_pyspark_");
      boolean isAnother = one.id() != null && columns.contains(one.id());
      if (!isAnother && !text.equals("_pyspark_") && drawn.stream().noneMatch(text::contains)) {
        chosen.add(text);
      }
    }
    return chosen;
  }

  private static boolean isMadeUp(Alias alias) {
    String made = SparkLine.title(alias.child());
    return made.equals(alias.name()) || PlanShape.masked(made).equals(PlanShape.masked(alias.name()));
  }
}
