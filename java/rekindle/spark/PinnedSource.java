// SPDX-License-Identifier: Apache-2.0
package rekindle.spark;

/** A table of a catalog of which every query reads the same rows: a source of a run that is read at one version (Iceberg). */
public interface PinnedSource {}
