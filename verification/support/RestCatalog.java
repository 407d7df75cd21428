// SPDX-License-Identifier: Apache-2.0
import java.net.InetSocketAddress;
import java.util.Map;

import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/** Iceberg's own REST catalog of its tests, over SQLite, on loopback alone: the server that it is shipped with listens everywhere. Arguments: port, database, warehouse. */
final class RestCatalog {
  public static void main(String[] given) throws Exception {
    Map<String, String> settings =
        Map.of(
            "catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog",
            "io-impl", "org.apache.iceberg.hadoop.HadoopFileIO",
            "jdbc.schema-version", "V1",
            "uri", "jdbc:sqlite:" + given[1],
            "warehouse", given[2]);
    var catalog = CatalogUtil.buildIcebergCatalog("rest", settings, new Configuration());
    ServletContextHandler context = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
    context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
    Server server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(given[0])));
    server.setHandler(context);
    server.start();
    server.join();
  }
}
