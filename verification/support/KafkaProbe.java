// SPDX-License-Identifier: Apache-2.0
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import javax.management.InstanceNotFoundException;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** {@code send BROKER TOPIC}: each line of the input is a record. {@code sent JMX_PORT TOPIC}: prints the broker's own count of bytes that it sent of a topic. */
public final class KafkaProbe {
  private KafkaProbe() {}

  public static void main(String[] asked) throws Exception {
    if (asked[0].equals("send")) {
      send(asked[1], asked[2]);
    } else {
      System.out.println(sent(asked[1], asked[2]));
    }
  }

  private static void send(String broker, String topic) throws Exception {
    Map<String, Object> settings = Map.of("bootstrap.servers", broker, "acks", "all");
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        producer.send(new ProducerRecord<>(topic, line));
      }
    }
  }

  private static long sent(String port, String topic) throws Exception {
    JMXServiceURL place = new JMXServiceURL("service:jmx:rmi:///jndi/rmi://127.0.0.1:" + port + "/jmxrmi");
    ObjectName name = new ObjectName("kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec,topic=" + topic);
    try (JMXConnector connector = JMXConnectorFactory.connect(place, Map.of())) {
      return (Long) connector.getMBeanServerConnection().getAttribute(name, "Count");
    } catch (InstanceNotFoundException nothing) {
      return 0;
    }
  }
}
