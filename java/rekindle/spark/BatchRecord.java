// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The entry of a batch of a stream, as text: lines of a word and a value by a tab, then a line for each file, its name and its length. The words are {@code epoch},
 * {@code offsets} (their digest) and {@code directory}, and of the result of a region {@code rows} (their digest) and, where they are blocks on executors
 * instead of files, {@code blocks} (the application that has them), or, where they are records, {@code topic}, {@code from} and {@code to} (offsets), {@code tasks}, and {@code bytes}
 * (of keys and values).
 */
record BatchRecord(Map<String, String> words, List<String> files) {
  static final String EPOCH = "epoch", OFFSETS = "offsets", DIRECTORY = "directory", ROWS = "rows", BLOCKS = "blocks", TOPIC = "topic", FROM = "from", TO = "to", TASKS = "tasks";
  static final String BYTES = "bytes";
  private static final List<String> OPTIONAL = List.of(ROWS, BLOCKS, TOPIC, FROM, TO, TASKS, BYTES);
  private static final int HEAD = 3;

  static BatchRecord of(String text) {
    List<String> lines = text.lines().toList();
    Map<String, String> words = new TreeMap<>();
    int at = 0;
    for (; at < lines.size() && (at < HEAD || OPTIONAL.contains(word(lines.get(at)))); at++) {
      words.put(word(lines.get(at)), lines.get(at).substring(lines.get(at).indexOf('\t') + 1));
    }
    return new BatchRecord(words, lines.subList(at, lines.size()));
  }

  private static String word(String line) {
    return line.substring(0, Math.max(line.indexOf('\t'), 0));
  }

  String text() {
    List<String> lines = new ArrayList<>();
    for (String word : List.of(EPOCH, OFFSETS, DIRECTORY, ROWS, BLOCKS, TOPIC, FROM, TO, TASKS, BYTES)) {
      if (words.containsKey(word)) {
        lines.add(word + "\t" + words.get(word));
      }
    }
    lines.addAll(files);
    return String.join("\n", lines) + "\n";
  }

  String directory() {
    return words.get(DIRECTORY);
  }

  String offsets() {
    return words.get(OFFSETS);
  }

  /** Empty where no digest was made. */
  String rows() {
    return words.getOrDefault(ROWS, "");
  }

  /** The topic that has its rows; empty where they are in files or blocks. */
  String topic() {
    return words.getOrDefault(TOPIC, "");
  }

  /** The application whose executors have its rows; empty where they are in files. */
  String blocks() {
    return words.getOrDefault(BLOCKS, "");
  }
}
