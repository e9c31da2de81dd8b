package org.example.raindrop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import org.example.raindrop.conformance.Driver;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class DriverTest {
  @TempDir Path folder;

  @Test
  void the_driver_answers_each_line() throws Exception {
    try (FakeServer server = new FakeServer()) {
      server.handler =
          request -> request.head().contains("/slow?") ? null : server.ids(request.upTo());
      Path drawn = folder.resolve("drawn");
      List<String> answers =
          dialogue(
              String.join(
                  "\n",
                  "{\"do\":\"open\",\"urls\":[\""
                      + server.url()
                      + "\"],\"options\":{\"deadline_ms\":30000,\"request_timeout_ms\":60000,\"min_range\":5}}",
                  "{\"do\":\"next\",\"code\":\"order\"}",
                  "{\"do\":\"next\",\"code\":\"order\",\"n\":3,\"deadline_ms\":20000}",
                  "{\"do\":\"text\",\"code\":\"order\"}",
                  "{\"do\":\"time_of\",\"code\":\"order\",\"id\":\"8388608\"}",
                  "{\"do\":\"next\",\"code\":\"slow\",\"background\":true}",
                  "{\"do\":\"burst\",\"code\":\"order\",\"threads\":2,\"count\":500,\"file\":\""
                      + drawn
                      + "\"}",
                  "{\"do\":\"next\",\"code\":\"order\",\"n\":0}",
                  "{\"do\":\"stats\"}",
                  "{\"do\":\"close\"}",
                  "{\"do\":\"await\",\"started\":1}"));
      assertEquals("{\"ok\":true}", answers.get(0));
      assertTrue(answers.get(1).startsWith("{\"ids\":[\"1\"],\"waited_ms\":"), answers.get(1));
      assertTrue(answers.get(2).startsWith("{\"ids\":[\"2\",\"3\",\"4\"],"), answers.get(2));
      assertTrue(answers.get(3).startsWith("{\"ids\":[\"5\"],"), answers.get(3));
      assertEquals("{\"unix_ms\":1020}", answers.get(4));
      assertEquals("{\"started\":1}", answers.get(5));
      assertTrue(
          answers.get(6).startsWith("{\"drawn\":1000,\"failed\":0,\"longest_wait_ms\":"),
          answers.get(6));
      assertEquals(1000, new HashSet<>(Files.readAllLines(drawn)).size());
      assertTrue(
          answers.get(7).startsWith("{\"error\":{\"kind\":\"usage\",\"message\":\"n = 0"),
          answers.get(7));
      assertTrue(
          answers
              .get(8)
              .matches("\\{\"requests\":\\d+,\"failed_requests\":0,\"ids_fetched\":\\d{4,},.*"),
          answers.get(8));
      assertEquals("{\"ok\":true}", answers.get(9));
      assertTrue(answers.get(10).startsWith("{\"error\":{\"kind\":\"closed\","), answers.get(10));
    }
  }

  private static List<String> dialogue(String requests) throws Exception {
    ByteArrayOutputStream output = new ByteArrayOutputStream();
    new Driver()
        .run(
            new BufferedReader(new StringReader(requests)),
            new PrintStream(output, true, StandardCharsets.UTF_8));
    return output.toString(StandardCharsets.UTF_8).lines().toList();
  }
}
