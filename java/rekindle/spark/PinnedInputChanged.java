// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

/** A batch input of a stream is no longer what was pinned. Told by its class: the words of its message are for people. */
final class PinnedInputChanged extends IllegalStateException {
  private static final long serialVersionUID = 1L;
  private static final int NAMED_MAX = 2;

  /** `changed`: a line for each file, its path and what is different; by a tab. */
  PinnedInputChanged(String step, String changed) {
    super(sentence(step, changed.lines().map(line -> line.replace('\t', ' ')).toList()));
  }

  private static String sentence(String step, java.util.List<String> lines) {
    String more = lines.size() > NAMED_MAX ? " and " + (lines.size() - NAMED_MAX) + " more" : "";
    return "the input of " + step + " changed while the run was on: " + String.join("; ", lines.subList(0, Math.min(NAMED_MAX, lines.size()))) + more;
  }
}
