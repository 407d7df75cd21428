// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.util.List;
import java.util.stream.Collectors;

/** Batches of the result of a region whose rows cannot be read any more, and that may be made again. Told by its class: the words of its message are for people. */
final class ResultBatchesLost extends IllegalStateException {
  private static final long serialVersionUID = 1L;

  ResultBatchesLost(List<Long> batches, String step) {
    super("rows of the result of " + step + " cannot be read any more: batch " + batches.stream().map(String::valueOf).collect(Collectors.joining(", ")));
  }
}
