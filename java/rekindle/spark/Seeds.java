// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.util.ArrayList;
import java.util.List;

import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionWithRandomSeed;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.Sample;

import scala.Option;
import scala.Product;

/**
 * The seeds of a plan: which a user wrote, and which were drawn for him. Spark says of some that it drew them. All others that it draws come from
 * `java.util.Random.nextLong`, which can give one of 65,536 numbers only: a number that it cannot give was not drawn by it. PySpark draws those of
 * samples itself, from 0 to 2^63: a large one of these cannot be told from one that was written, and is `unsure`. Numbers below 2^32 are written ones:
 * the chance to draw one is 1 in 4 thousand million, and only costs that a step is computed again.
 */
final class Seeds {
  private static final long SMALL = 1L << 32;
  private static final long STATE = (1L << 48) - 1;

  final List<String> written = new ArrayList<>();
  final List<String> unsure = new ArrayList<>();
  final List<String> drawn = new ArrayList<>();

  void look(Product product) {
    if (product instanceof ExpressionWithRandomSeed random) {
      add(random.getClass().getSimpleName(), given(random), isHidden(product));
    } else if (product instanceof Sample sample) {
      add("Sample", element(sample, "seed"), false);
    }
  }

  private void add(String what, Object seed, boolean isHidden) {
    Object value = seed instanceof Option<?> option ? (option.isDefined() ? option.get() : null) : seed;
    if (value == null) {
      return;
    }
    if (!(value instanceof Number number)) {
      written.add(what.toLowerCase(java.util.Locale.ROOT) + " " + value);
      return;
    }
    long chosen = number.longValue();
    String said = what.toLowerCase(java.util.Locale.ROOT) + " " + chosen;
    if (isHidden || Math.abs(chosen) >= SMALL && mayBeDrawn(chosen)) {
      drawn.add(Long.toString(chosen));
    } else if (chosen >= SMALL) {
      unsure.add(said);
    } else {
      written.add(said);
    }
  }

  /** What stands where the seed does: a number, or the text of an expression that is not one. */
  private static Object given(ExpressionWithRandomSeed random) {
    Expression seed = random.seedExpression();
    if (seed instanceof Literal literal) {
      return literal.value();
    }
    Object option = element((Product) random, "randomSeed");
    return option != null ? option : PlanShape.textOf(seed);
  }

  private static boolean isHidden(Product product) {
    return Boolean.TRUE.equals(element(product, "hideSeed"));
  }

  private static Object element(Product product, String name) {
    for (int i = 0; i < product.productArity(); i++) {
      if (SparkLine.argument(product, i).equals(name)) {
        return product.productElement(i);
      }
    }
    return null;
  }

  /** Is there a state of `java.util.Random` whose next long this is? Its upper half shows 32 of 48 bits; the others are tried. */
  static boolean mayBeDrawn(long value) {
    int low = (int) value;
    long high = ((value - low) >>> 32) & 0xFFFFFFFFL;
    for (long rest = 0; rest < 1 << 16; rest++) {
      long next = ((high << 16 | rest) * 0x5DEECE66DL + 0xBL) & STATE;
      if ((int) (next >>> 16) == low) {
        return true;
      }
    }
    return false;
  }
}
