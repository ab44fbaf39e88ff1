import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/**
 * Kafka's command-line tools, one after the other in one Java: each alone takes seconds to start.
 *
 * A line of the input is a class and its arguments, set apart by tabs. The answer is the exit code
 * as four bytes, the length of what the tool printed (to either stream, in the order of time) as
 * four bytes, and that. It knows no tool, prints nothing of its own, and ends with its input.
 */
public class Tools {
    /** Thrown where a tool wants to end the process; what it says or does later does not count. */
    private static final class Left extends Error {
        private Left() {
            super("the tool has left", null, false, false);
        }
    }

    private static final ByteArrayOutputStream SAID = new ByteArrayOutputStream();
    private static byte[] saidUntilExit;
    private static int code;

    public static void main(String[] none) throws Exception {
        var answers = new DataOutputStream(System.out);
        var questions = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        // Once and for all: Scala keeps the stream that it finds first.
        var printed = new PrintStream(SAID, true, "UTF-8");
        System.setOut(printed);
        System.setErr(printed);
        Exit.setExitProcedure((asked, message) -> {
            leave(asked);
            throw new Left();
        });
        for (var line = questions.readLine(); line != null; line = questions.readLine()) {
            var words = line.split("\t", -1);
            SAID.reset();
            saidUntilExit = null;
            run(words[0], Arrays.copyOfRange(words, 1, words.length));
            answers.writeInt(code);
            answers.writeInt(saidUntilExit.length);
            answers.write(saidUntilExit);
            answers.flush();
        }
    }

    private static void run(String tool, String[] arguments) throws ReflectiveOperationException {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
            leave(0);
        } catch (InvocationTargetException ended) {
            if (!(ended.getCause() instanceof Left)) {
                ended.getCause().printStackTrace();
                leave(1);
            }
        }
    }

    private static void leave(int asked) {
        if (saidUntilExit == null) {
            saidUntilExit = SAID.toByteArray();
            code = asked;
        }
    }
}
