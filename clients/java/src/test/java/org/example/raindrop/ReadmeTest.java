package org.example.raindrop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.OptionalLong;
import java.util.concurrent.atomic.LongAdder;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/**
 * Runs the examples of README.md. They stand here word for word, apart from the service's address.
 */
class ReadmeTest {
  private static final String ADDRESS = "http://127.0.0.1:8080";

  private record Tokens(String current) {}

  private final LongAdder failures = new LongAdder();
  private int created;
  private int later;

  private void create(Code code) {
    created++;
  }

  private void tryLater() {
    later++;
  }

  @Test
  void the_examples_stand_here() throws Exception {
    String source =
        Files.readString(Path.of("src/test/java/org/example/raindrop/ReadmeTest.java"))
            .replace("server.url()", '"' + ADDRESS + '"')
            .replaceAll("\\s+", " ");
    List<String> examples =
        Pattern.compile("```java\n(.*?)```", Pattern.DOTALL)
            .matcher(Files.readString(Path.of("README.md")))
            .results()
            .map(match -> match.group(1))
            .toList();
    assertEquals(4, examples.size());
    for (String example : examples) {
      assertTrue(source.contains(example.strip().replaceAll("\\s+", " ")), example);
    }
  }

  @Test
  void calls_by_name() throws Exception {
    try (FakeServer server = new FakeServer()) {
      try (RaindropClient client = RaindropClient.builder().url(server.url()).build()) {
        long id = client.next("order");
        long[] ids = client.nextMany("order", 100);
        String text = client.nextText("order");
        Instant issued = client.timeOf("order", id);
      }
      assertTrue(server.requests.stream().mapToLong(FakeServer.Request::upTo).sum() >= 102);
    }
  }

  @Test
  void calls_of_a_handle() throws Exception {
    try (FakeServer server = new FakeServer();
        RaindropClient client = server.client().minRange(6).build()) {
      Code order = client.code("order");
      long id = order.next();
      order.warmUp();
      OptionalLong another = order.tryNext();
      long soon = order.next(Duration.ofMillis(50));
      String[] texts = order.nextTextMany(3, Duration.ofMillis(500));
      assertEquals(List.of(1L, 2L, 3L), List.of(id, another.getAsLong(), soon));
      assertEquals(List.of("4", "5", "6"), List.of(texts));
    }
  }

  @Test
  void a_builder_with_options() {
    Tokens tokens = new Tokens("not a token");
    RaindropClient client =
        RaindropClient.builder()
            .url("https://ids-1.example.org")
            .url("https://ids-2.example.org")
            .token(() -> tokens.current())
            .deadline(Duration.ofMillis(500))
            .metrics(
                new RaindropMetrics() {
                  @Override
                  public void requestFailed(Request request, RaindropException error) {
                    failures.increment();
                  }
                })
            .build();
    // The token has a space, so the example sends nothing.
    assertThrows(RaindropException.class, () -> client.next("order"));
    client.close();
    assertTrue(failures.sum() >= 1);
  }

  @Test
  void errors_are_told_apart_by_code_and_kind() throws Exception {
    try (FakeServer server = new FakeServer();
        RaindropClient client = server.client().deadline(Duration.ofMillis(500)).build()) {
      server.handler =
          request ->
              request.head().contains("/order?")
                  ? FakeServer.problem(404, "unknown_code", "60")
                  : request.head().contains("/slow?")
                      ? null
                      : FakeServer.problem(403, "forbidden", "60");
      recover(client.code("order"));
      recover(client.code("slow"));
      assertEquals(List.of(1, 1), List.of(created, later));
      assertThrows(RaindropException.Problem.class, () -> recover(client.code("other")));
    }
  }

  private void recover(Code order) {
    try {
      order.next();
    } catch (RaindropException e) {
      if (e instanceof RaindropException.Problem problem && problem.code().equals("unknown_code")) {
        create(order);
      } else if (e.kind() == RaindropException.Kind.DEADLINE) {
        tryLater();
      } else {
        throw e;
      }
    }
  }
}
