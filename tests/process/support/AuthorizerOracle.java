/*
 * Asks Kafka's StandardAuthorizer: reads sets of ACLs and requests, one a line with tabs between the
 * fields, and answers each request with a line: whether it is allowed, and whether it is by its type.
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

public class AuthorizerOracle {
    record Sender(KafkaPrincipal principal, InetAddress clientAddress)
            implements AuthorizableRequestContext {
        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 3; }
        public int requestVersion() { return 0; }
        public String clientId() { return "oracle"; }
        public int correlationId() { return 0; }
    }

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        StandardAuthorizer authorizer = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] said = line.split("\t", -1);
            switch (said[0]) {
                case "scene" -> authorizer = authorizer(said[1], said[2]);
                case "acl" -> authorizer.addAcl(Uuid.fromString(said[1]), acl(said));
                case "ask" -> out.println(answer(authorizer, said));
                default -> throw new IllegalArgumentException(line);
            }
        }
        out.flush();
    }

    static StandardAuthorizer authorizer(String superUsers, String allowed) throws Exception {
        var found = new StandardAuthorizer();
        found.configure(Map.of(
            "super.users", superUsers,
            "allow.everyone.if.no.acl.found", allowed));
        found.completeInitialLoad();
        giveMetrics(found);
        return found;
    }

    /** From Kafka 4.1 on it counts its decisions, by classes that older releases lack. */
    static void giveMetrics(StandardAuthorizer authorizer) throws Exception {
        String metrics = "org.apache.kafka.common.metrics.";
        Class<?> type;
        try {
            type = Class.forName(metrics + "PluginMetrics");
        } catch (ClassNotFoundException older) {
            return;
        }
        Class<?> all = Class.forName(metrics + "Metrics");
        Object made = Class.forName(metrics + "internals.PluginMetricsImpl")
            .getConstructor(all, Map.class)
            .newInstance(all.getConstructor().newInstance(), Map.of());
        StandardAuthorizer.class.getMethod("withPluginMetrics", type).invoke(authorizer, made);
    }

    static StandardAcl acl(String[] said) {
        return new StandardAcl(
            ResourceType.fromCode(Byte.parseByte(said[2])),
            said[3],
            PatternType.fromCode(Byte.parseByte(said[4])),
            said[5],
            said[6],
            AclOperation.fromCode(Byte.parseByte(said[7])),
            AclPermissionType.fromCode(Byte.parseByte(said[8])));
    }

    static String answer(StandardAuthorizer authorizer, String[] said) throws Exception {
        var sender = new Sender(
            SecurityUtils.parseKafkaPrincipal(said[1]), InetAddress.getByName(said[2]));
        var operation = AclOperation.fromCode(Byte.parseByte(said[3]));
        var type = ResourceType.fromCode(Byte.parseByte(said[4]));
        var pattern = new ResourcePattern(type, said[5], PatternType.LITERAL);
        var action = new Action(operation, pattern, 1, false, false);
        return name(authorizer.authorize(sender, List.of(action)).get(0))
            + " " + name(authorizer.authorizeByResourceType(sender, operation, type));
    }

    static String name(AuthorizationResult result) {
        return result == AuthorizationResult.ALLOWED ? "allowed" : "denied";
    }
}
