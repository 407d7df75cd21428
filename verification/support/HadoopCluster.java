// SPDX-License-Identifier: Apache-2.0
import java.io.File;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/**
 * HDFS on this machine, and YARN if it is asked for: a real NameNode and DataNode, a ResourceManager and NodeManagers, in one process, on loopback.
 *
 * <p>{@code HadoopCluster FOLDER NODE_MANAGERS MEMORY_MB}. Without NodeManagers there is no YARN. When all of it answers, its settings are in FOLDER/conf: what
 * HADOOP_CONF_DIR is to name. It ends when its input ends.
 */
public final class HadoopCluster {
  private HadoopCluster() {}

  public static void main(String[] told) throws Exception {
    File folder = new File(told[0]);
    int nodes = Integer.parseInt(told[1]);
    System.setProperty("hadoop.log.dir", new File(folder, "logs").getPath());
    System.setProperty("yarn.log.dir", new File(folder, "logs").getPath());
    System.setProperty("test.build.data", new File(folder, "data").getPath());

    MiniDFSCluster hdfs = files(folder);
    Path conf = folder.toPath().resolve("conf");
    Files.createDirectories(conf);
    Configuration core = new Configuration(false);
    core.set("fs.defaultFS", hdfs.getURI().toString());
    core.set("dfs.replication", "1");
    core.set("dfs.namenode.http-address", hdfs.getHttpUri(0).replaceFirst("^.*://", ""));
    write(core, conf.resolve("core-site.xml"));
    MiniYARNCluster yarn = nodes == 0 ? null : containers(hdfs, nodes, Integer.parseInt(told[2]));
    if (yarn != null) {
      Configuration shown = new Configuration(yarn.getConfig());
      shown.unset("net.topology.node.switch.mapping.impl"); // A class of Hadoop's tests, which Spark does not have.
      write(shown, conf.resolve("yarn-site.xml"));
    }
    System.out.println("up " + hdfs.getURI() + " " + core.get("dfs.namenode.http-address"));
    System.out.flush();
    while (System.in.read() >= 0) {
      continue;
    }
    if (yarn != null) {
      yarn.stop();
    }
    hdfs.shutdown();
    System.exit(0);
  }

  private static MiniDFSCluster files(File folder) throws Exception {
    Configuration settings = new Configuration();
    settings.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, new File(folder, "hdfs").getPath());
    settings.setInt("dfs.replication", 1);
    settings.set("dfs.namenode.http-address", "127.0.0.1:0");
    settings.set("dfs.datanode.hostname", "127.0.0.1");
    // Else whoever closes a file just before its block was reported sleeps for 400 ms.
    settings.setInt("dfs.client.block.write.locateFollowingBlock.initial.delay.ms", 5);
    MiniDFSCluster hdfs = new MiniDFSCluster.Builder(settings).numDataNodes(1).build();
    hdfs.waitActive();
    return hdfs;
  }

  private static MiniYARNCluster containers(MiniDFSCluster hdfs, int nodes, int memory) throws Exception {
    YarnConfiguration settings = new YarnConfiguration(hdfs.getConfiguration(0));
    settings.set("fs.defaultFS", hdfs.getURI().toString());
    settings.set("yarn.resourcemanager.bind-host", "127.0.0.1");
    settings.set("yarn.nodemanager.bind-host", "127.0.0.1");
    settings.setInt(YarnConfiguration.RM_SCHEDULER_MINIMUM_ALLOCATION_MB, 128);
    settings.setInt(YarnConfiguration.YARN_MINICLUSTER_NM_PMEM_MB, memory);
    settings.setInt(YarnConfiguration.NM_VCORES, 16);
    settings.setBoolean("yarn.nodemanager.pmem-check-enabled", false);
    settings.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
    settings.setBoolean("yarn.nodemanager.disk-health-checker.enable", false);
    settings.setFloat("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", 99.0f);
    settings.setInt("yarn.resourcemanager.am.max-attempts", 100);
    settings.set("yarn.scheduler.capacity.maximum-am-resource-percent", "1.0");
    settings.setInt("yarn.nodemanager.delete.debug-delay-sec", 0);
    MiniYARNCluster yarn = new MiniYARNCluster("rekindle", 1, nodes, 1, 1);
    yarn.init(settings);
    yarn.start();
    yarn.waitForNodeManagersToConnect(60_000);
    return yarn;
  }

  private static void write(Configuration settings, Path file) throws Exception {
    Path fresh = file.resolveSibling(file.getFileName() + ".new");
    try (OutputStream out = new FileOutputStream(fresh.toFile())) {
      settings.writeXml(out);
    }
    Files.move(fresh, file, StandardCopyOption.ATOMIC_MOVE);
  }
}
