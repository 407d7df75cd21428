// SPDX-License-Identifier: Apache-2.0
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;

/** Makes the tables of locks in the database of a Hive metastore, which its automatic schema leaves out. The database is what the property of that name says. */
final class HiveSchema {
  public static void main(String[] given) throws Exception {
    TxnDbUtil.prepDb(new HiveConf());
  }
}
