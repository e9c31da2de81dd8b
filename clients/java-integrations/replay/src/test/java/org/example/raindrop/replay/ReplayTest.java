package org.example.raindrop.replay;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Five replicas save batches at the same time. */
class ReplayTest {
  /** What happened with each generator: numbers by name. */
  private static Map<String, Map<String, String>> seen;

  @BeforeAll
  static void replay() throws Exception {
    Path file = Path.of("target/replay.out");
    ProcessBuilder builder =
        new ProcessBuilder("./replay.sh")
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .redirectOutput(file.toFile());
    builder.environment().put("CLASSPATH", System.getProperty("java.class.path"));
    builder
        .environment()
        .computeIfAbsent(
            "RAINDROP",
            unset -> Path.of("../../../target/debug/raindrop").toAbsolutePath().toString());
    Process process = builder.start();
    process.getOutputStream().close();
    boolean ended = process.waitFor(10, TimeUnit.MINUTES);
    if (!ended) {
      // Without its children, the script removes its files and ends.
      process.descendants().forEach(ProcessHandle::destroyForcibly);
      if (!process.waitFor(10, TimeUnit.SECONDS)) {
        process.destroyForcibly();
      }
    }
    String output = Files.readString(file);
    System.out.print(output);
    assertThat(ended).as("replay.sh ends within 10 minutes; it printed: %s", output).isTrue();
    assertThat(process.exitValue()).as("replay.sh printed: %s", output).isZero();
    seen =
        output
            .lines()
            .map(
                line ->
                    Stream.of(line.split(" "))
                        .map(field -> field.split("="))
                        .collect(Collectors.toMap(field -> field[0], field -> field[1])))
            .collect(Collectors.toMap(fields -> fields.get("generator"), fields -> fields));
  }

  @Test
  void the_built_in_generator_repeats_ids() {
    assertThat(seen.get("built_in"))
        .containsEntry("process-ids", "1")
        .containsEntry("workers", "1")
        .doesNotContainEntry("repeated", "0")
        .doesNotContainEntry("refused", "0");
  }

  @Test
  void raindrop_repeats_none() {
    assertThat(seen.get("raindrop"))
        .containsEntry("process-ids", "1")
        .containsEntry("drawn", "50000")
        .containsEntry("repeated", "0")
        .containsEntry("refused", "0")
        .containsEntry("rows", "50000");
  }
}
