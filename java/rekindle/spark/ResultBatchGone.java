// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

/** A batch that a region is to read next is no longer in the result of another. Told by its class: the words of its message are for people. */
final class ResultBatchGone extends IllegalStateException {
  private static final long serialVersionUID = 1L;

  ResultBatchGone(long batch, String step, Exception why) {
    super("batch " + batch + " of the result of " + step + " is gone: its rows cannot be read again", why);
  }
}
