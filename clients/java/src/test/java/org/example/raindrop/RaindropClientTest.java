package org.example.raindrop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.http.HttpClient;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.stream.LongStream;
import org.example.raindrop.RaindropException.Kind;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class RaindropClientTest {
  /** Longer than any step of a test takes, and shorter than its time-out. */
  private static final Duration LONG = Duration.ofSeconds(30);

  /** Shorter than the longest back-off, so that a call fails at once after a long Retry-After. */
  private static final Duration BRIEF = Duration.ofSeconds(5);

  private final CountingMetrics metrics = new CountingMetrics();
  private final AtomicLong clock = new AtomicLong();
  private final ExecutorService threads = Executors.newCachedThreadPool();
  private FakeServer server;

  @BeforeEach
  void start() throws Exception {
    server = new FakeServer();
  }

  @AfterEach
  void stop() throws Exception {
    threads.shutdownNow();
    server.close();
  }

  /** Returns a client on the test's clock, whose calls wait long. */
  private RaindropClient open() {
    return server.client().metrics(metrics).clock(clock::get).deadline(LONG).build();
  }

  private void pass(long milliseconds) {
    clock.addAndGet(TimeUnit.MILLISECONDS.toNanos(milliseconds));
  }

  private static void eventually(BooleanSupplier condition) throws InterruptedException {
    while (!condition.getAsBoolean()) {
      Thread.sleep(1);
    }
  }

  /** Returns a client whose calls fail at once after a long Retry-After. */
  private RaindropClient openBriefly() {
    return server.client().metrics(metrics).deadline(BRIEF).build();
  }

  /** Starts a refill that no call waits for, and returns the error of its request. */
  private RaindropException refused(RaindropClient client) throws InterruptedException {
    int before = metrics.errors.size();
    eventually(
        () -> {
          assertTrue(client.code("order").tryNext().isEmpty());
          return metrics.errors.size() > before;
        });
    return metrics.errors.get(before);
  }

  private static RaindropException fails(Kind kind, Runnable call) {
    RaindropException error = assertThrows(RaindropException.class, call::run);
    assertEquals(kind, error.kind(), error.toString());
    return error;
  }

  @Test
  void threads_share_a_buffer_and_each_gets_its_own_ascending_ids() throws Exception {
    try (RaindropClient client = server.client().metrics(metrics).deadline(LONG).build()) {
      Callable<long[]> task =
          () -> LongStream.range(0, 100_000).map(i -> client.next("order")).toArray();
      List<Future<long[]>> results = threads.invokeAll(List.of(task, task, task, task));
      LongStream all = LongStream.empty();
      for (Future<long[]> result : results) {
        long[] ids = result.get();
        for (int i = 1; i < ids.length; i++) {
          assertTrue(ids[i] > ids[i - 1]);
        }
        all = LongStream.concat(all, Arrays.stream(ids));
      }
      assertEquals(400_000, all.distinct().count());
    }
    assertEquals(1, server.mostInFlight.get());
    // An answer that comes after the end of the client is dropped in the background.
    eventually(() -> metrics.idsFetched.get() == 400_000 + metrics.idsDropped.get());
  }

  @Test
  void a_single_call_asks_for_a_single_id() throws Exception {
    try (RaindropClient client = open()) {
      assertEquals(1, client.next("order"));
      pass(3_000);
      assertEquals(2, client.next("order"));
    }
    assertEquals(List.of(1L, 1L), server.requests.stream().map(FakeServer.Request::upTo).toList());
    assertTrue(
        server
            .requests
            .get(0)
            .head()
            .startsWith("POST /ids/order?format=range&up_to=1 HTTP/1.1\r\n"));
  }

  /** Draws at a rate, in ticks of 10 ms, and lets each refill arrive at once. */
  private void draw(RaindropClient client, double perSecond, int milliseconds)
      throws InterruptedException {
    double due = 0;
    for (int time = 0; time < milliseconds; time += 10) {
      pass(10);
      for (due += perSecond / 100; due >= 1; due--) {
        client.next("order");
      }
      eventually(() -> metrics.requests.get() == server.requests.size());
    }
  }

  @Test
  void the_size_follows_the_rate_up_and_down() throws Exception {
    try (RaindropClient client = open()) {
      draw(client, 10_000, 3_000);
      int warm = server.requests.size();
      draw(client, 10_000, 10_000);
      long last = server.requests.get(server.requests.size() - 1).upTo();
      assertTrue(last > 18_000 && last < 22_000, "asked for " + last);
      assertTrue(warm < 15, warm + " requests for the ramp");
      assertTrue(server.requests.size() - warm <= 10, "more than one request per second");

      draw(client, 10, 30_000);
      last = server.requests.get(server.requests.size() - 1).upTo();
      assertTrue(last < 40, "asked for " + last);
      int slow = server.requests.size();
      draw(client, 1_000, 5_000);
      assertTrue(
          server.requests.size() - slow < 15,
          server.requests.size() - slow + " requests for a burst");
    }
  }

  @Test
  void a_small_answer_is_asked_for_again() throws Exception {
    // The eleventh fetches ahead, perhaps before this test has counted.
    server.handler =
        request -> server.requests.size() > 10 ? null : server.ids(Math.min(10, request.upTo()));
    try (RaindropClient client = open()) {
      assertEquals(100, client.nextMany("order", 100).length);
      assertEquals(10, metrics.requests.get());
    }
  }

  @Test
  void an_id_older_than_max_age_is_never_returned() {
    server.handler = request -> server.ids(request.upTo());
    try (RaindropClient client =
        server.client().metrics(metrics).clock(clock::get).minRange(100).build()) {
      Code code = client.code("order");
      assertEquals(1, code.next());
      pass(9_999);
      assertEquals(2, code.next());
      pass(1); // A paused process looks the same: the clock went on, and no other code ran.
      assertEquals(101, code.next());
      pass(10_000);
      assertTrue(code.tryNext().isEmpty());
      assertEquals(202, code.nextMany(2, LONG)[1]);
      pass(10_000);
      assertEquals("301", code.nextText());
    }
    assertEquals(metrics.idsFetched.get(), 6 + metrics.idsDropped.get());
  }

  @Test
  void an_unused_buffer_is_dropped_in_the_background() throws Exception {
    try (RaindropClient client =
        server.client().metrics(metrics).minRange(100).maxAge(Duration.ofSeconds(2)).build()) {
      client.next("order");
      eventually(() -> metrics.idsDropped.get() == 99);
    }
    assertEquals(1, server.requests.size());
  }

  @Test
  void what_a_call_collected_is_dropped_if_it_became_too_old_meanwhile() {
    Thread caller = Thread.currentThread();
    AtomicBoolean isCalling = new AtomicBoolean();
    AtomicInteger answers = new AtomicInteger();
    server.handler =
        request -> {
          if (answers.incrementAndGet() == 2) {
            // The call waits as soon as it has both IDs of the first answer.
            while (!isCalling.get() || caller.getState() != Thread.State.TIMED_WAITING) {
              Thread.onSpinWait();
            }
            pass(10_000);
          }
          return server.ids(answers.get() == 1 ? 2 : request.upTo());
        };
    try (RaindropClient client =
        server.client().metrics(metrics).clock(clock::get).minRange(2).deadline(LONG).build()) {
      client.warmUp("order");
      isCalling.set(true);
      long[] ids = client.nextMany("order", 3);
      // The second answer is itself too old by the clock of its request. The first ID of the third
      // completes the call, which then begins anew.
      long third = 3 + server.requests.get(1).upTo();
      assertArrayEquals(new long[] {third + 1, third + 2, third + 3}, ids);
      assertEquals(3, metrics.idsDropped.get());
    }
    assertEquals(Kind.TRANSPORT, metrics.errors.get(0).kind());
  }

  @Test
  void numbers_of_segment_mode_do_not_age() {
    server.handler =
        request -> "{\"increment\":2,\"ranges\":[" + FakeServer.range(7, 2, request.upTo()) + "]}";
    try (RaindropClient client = server.client().clock(clock::get).minRange(3).build()) {
      assertEquals(7, client.next("order"));
      pass(1_000_000);
      assertEquals(9, client.next("order"));
      fails(Kind.USAGE, () -> client.timeOf("order", 9));
    }
    assertEquals(1, server.requests.size());
  }

  @Test
  void no_id_is_returned_after_until() {
    server.handler =
        request ->
            "{\"issued_at\":\"2026-11-28T09:30:00Z\",\"until\":\"2026-11-28T10:30:01+01:00\","
                + "\"increment\":1,\"ranges\":["
                + FakeServer.range(1 + 3L * server.requests.size(), 1, request.upTo())
                + "]}";
    try (RaindropClient client = server.client().clock(clock::get).minRange(3).build()) {
      assertEquals(4, client.next("order"));
      pass(999);
      assertEquals(5, client.next("order"));
      pass(1);
      assertEquals(7, client.next("order"));
    }
  }

  @Test
  void ranges_with_repeats_are_drawn_in_order() {
    server.handler =
        request ->
            FakeServer.answer(
                FakeServer.range(5, 10, 2)
                    + ",{\"first\":\"100\",\"last\":\"1103\",\"step\":\"1\",\"count\":4,\"repeat\":2,\"stride\":\"1000\"}");
    try (RaindropClient client = server.client().minRange(10).build()) {
      assertArrayEquals(new long[] {5, 15, 100, 101, 102}, client.nextMany("order", 5));
      assertEquals(103, client.next("order"));
      assertArrayEquals(new long[] {1100, 1101, 1102, 1103}, client.nextMany("order", 4));
    }
  }

  @Test
  void many_ids_ascend_even_if_answers_do_not() {
    server.handler =
        request -> FakeServer.answer(FakeServer.range(1_000 - 100L * server.requests.size(), 1, 2));
    try (RaindropClient client = open()) {
      assertArrayEquals(new long[] {800, 801, 900, 901}, client.nextMany("order", 4));
    }
  }

  @Test
  void a_text_has_the_prefix_of_its_answer() {
    server.handler =
        request ->
            server
                .ids(request.upTo())
                .replaceFirst(
                    "\\{", "{\"prefix\":\"O\\\\u00e9\\\\\"-" + server.requests.size() + "-\",");
    try (RaindropClient client = open()) {
      assertEquals("O\u00e9\"-1-1", client.nextText("order"));
      assertArrayEquals(
          new String[] {"O\u00e9\"-2-2", "O\u00e9\"-2-3"},
          client.code("order").nextTextMany(2, LONG));
    }
  }

  @Test
  void single_texts_have_the_prefix_of_their_own_answer() {
    server.handler =
        request ->
            server
                .ids(request.upTo())
                .replaceFirst("\\{", "{\"prefix\":\"" + server.requests.size() + "-\",");
    try (RaindropClient client = server.client().minRange(3).deadline(LONG).build()) {
      String[] texts = new String[4];
      Arrays.setAll(texts, i -> client.nextText("order"));
      assertArrayEquals(new String[] {"1-1", "1-2", "1-3", "2-4"}, texts);
    }
  }

  @Test
  void time_of_reads_the_bits_that_the_answer_names() {
    try (RaindropClient client = open()) {
      Code code = client.code("order");
      fails(Kind.USAGE, () -> code.timeOf(1));
      code.next();
      assertEquals(Instant.ofEpochMilli(1000 + 70), code.timeOf((7L << 22) + 5));
      assertEquals(
          Instant.ofEpochMilli(1000 + 10 * ((1L << 41) - 1)),
          client.timeOf("order", Long.MAX_VALUE));
      fails(Kind.USAGE, () -> code.timeOf(-1));
    }
  }

  @Test
  void try_next_never_waits_and_starts_a_refill() throws Exception {
    CountDownLatch asked = new CountDownLatch(1);
    CountDownLatch answer = new CountDownLatch(1);
    server.handler =
        request -> {
          asked.countDown();
          try {
            answer.await();
          } catch (InterruptedException e) {
            return null;
          }
          return server.ids(request.upTo());
        };
    try (RaindropClient client = open()) {
      Code code = client.code("order");
      assertTrue(code.tryNext().isEmpty());
      asked.await();
      assertTrue(code.tryNext().isEmpty());
      answer.countDown();
      eventually(() -> metrics.requests.get() == 1);
      eventually(() -> code.tryNext().isPresent());
    }
    assertEquals(0, metrics.waits.get());
  }

  @Test
  void every_invalid_answer_is_refused_as_a_whole() throws Exception {
    String good = FakeServer.range(1, 1, 2);
    List<String> answers = new ArrayList<>();
    for (String ranges :
        List.of(
            "",
            "1",
            "null",
            good + "," + good,
            FakeServer.range(9, 1, 2) + "," + good,
            FakeServer.range(1, 1, 11),
            FakeServer.range(1, 1, 9) + "," + FakeServer.range(20, 1, 2),
            FakeServer.range(1, 1, 0),
            FakeServer.range(1, 0, 2),
            FakeServer.range(5, -1, 2),
            good.replace("\"last\":\"2\"", "\"last\":\"3\""),
            good.replace("\"1\"", "1"),
            good.replace("\"1\"", "\"01\""),
            good.replace("\"1\"", "\"+1\""),
            good.replace("\"1\"", "\"\""),
            good.replace("\"first\":\"1\",", ""),
            good.replace("2}", "2.5}"),
            good.replace("2}", "\"2\"}"),
            good.replace("2}", "1e999}"),
            FakeServer.range(Long.MAX_VALUE, 1, 2),
            good.replace("\"1\",", "\"9223372036854775808\","),
            good.replace("2}", "2,\"repeat\":0,\"stride\":\"5\"}"),
            good.replace("2}", "2,\"repeat\":1}"),
            good.replace("2}", "2,\"stride\":\"5\"}"),
            "{\"first\":\"1\",\"last\":\"3\",\"step\":\"1\",\"count\":2,\"repeat\":2,\"stride\":\"1\"}",
            "{\"first\":\"1\",\"last\":\"2\",\"step\":\"1\",\"count\":2,\"repeat\":4611686018427387905,\"stride\":\"4\"}")) {
      answers.add(FakeServer.answer(ranges));
    }
    String whole = FakeServer.answer(good);
    answers.addAll(
        List.of(
            "{}",
            "[]",
            "1",
            "",
            "{\"ranges\":{}}",
            whole + "x",
            whole.substring(1),
            whole.replace('}', ']'),
            whole.replace("\"shift\":22", "\"shift\":60"),
            whole.replace("\"bits\":41", "\"bits\":0"),
            whole.replace("\"unit_ms\":10", "\"unit_ms\":0"),
            whole.replace("\"epoch_ms\":1000,", ""),
            whole.replaceFirst("\\{", "{\"prefix\":7,"),
            whole.replaceFirst("\\{", "{\"until\":\"soon\","),
            FakeServer.response("200 OK", "text/html", "", whole),
            FakeServer.response("200 OK", "application/json", "", whole + " ".repeat(1 << 20))));
    for (String answer : answers) {
      server.handler = request -> answer;
      try (RaindropClient client = server.client().minRange(10).metrics(metrics).build()) {
        RaindropException error = refused(client);
        assertEquals(Kind.INVALID_ANSWER, error.kind(), answer + ": " + error);
      }
    }
    assertEquals(answers.size(), server.requests.size());
    server.handler = request -> whole;
    try (RaindropClient client = server.client().minRange(10).build()) {
      assertEquals(1, client.next("order"));
    }
  }

  @Test
  void an_answer_that_is_repeated_is_refused() throws Exception {
    List<String> answers = List.of(server.ids(1), server.ids(1));
    server.handler =
        request -> answers.get(server.requests.size() < 3 ? server.requests.size() - 1 : 0);
    try (RaindropClient client = open()) {
      assertEquals(1, client.next("order"));
      assertEquals(2, client.next("order"));
      assertEquals(Kind.INVALID_ANSWER, refused(client).kind());
    }
  }

  @Test
  void unknown_fields_are_ignored() {
    server.handler =
        request ->
            FakeServer.answer(FakeServer.range(1, 1, 1).replace("1}", "1,\"x\":[{}]}"))
                .replaceFirst("\\{", "{\"more\":{\"a\":[1.5e3,true,false,null,\"\\\\n\"]},");
    try (RaindropClient client = open()) {
      assertEquals(1, client.next("order"));
    }
  }

  @Test
  void half_an_answer_is_a_transport_error() throws Exception {
    String whole = FakeServer.response("200 OK", "application/json", "", server.ids(1));
    for (String answer :
        List.of(
            whole.substring(0, whole.length() - 1),
            "HTTP/1.1 ",
            "HTTP/1.1 200 OK\r\n",
            whole.replaceFirst("Length: ", "Length: 99999999999999999999"))) {
      server.handler = request -> answer + "CUT";
      try (RaindropClient client = open()) {
        assertEquals(Kind.TRANSPORT, refused(client).kind());
      }
    }
    assertEquals(4, metrics.failedRequests.get());
  }

  @Test
  void what_has_another_status_and_is_no_problem_document_is_a_transport_error_and_fails_over()
      throws Exception {
    String wait = "Retry-After: 3600\r\n";
    List<String> answers = new ArrayList<>();
    for (String status :
        List.of(
            "201 Created", "307 Temporary Redirect", "404 Not Found", "500 Error", "520 Unknown")) {
      answers.add(
          FakeServer.response(status, "text/html", "Location: /elsewhere\r\n" + wait, "<html>"));
    }
    for (String body :
        List.of(
            "",
            "null",
            "[]",
            "{\"detail\":\"no code\"}",
            "{\"code\":7}",
            "{\"code\":\"a\",\"detail\":7}",
            "{\"code\":\"a\"")) {
      answers.add(FakeServer.response("500 Problem", "application/problem+json", wait, body));
    }
    try (FakeServer second = new FakeServer()) {
      for (String answer : answers) {
        server.handler = request -> answer;
        server.requests.clear();
        try (RaindropClient client = openBriefly()) {
          for (int i = 0; i < 2; i++) {
            RaindropException error = fails(Kind.TRANSPORT, () -> client.next("order"));
            assertEquals(answer.substring(9, 12), Integer.toString(error.status()));
            assertEquals(Duration.ofMinutes(1), error.retryAfter().orElseThrow());
          }
        }
        assertEquals(1, server.requests.size(), answer);
        try (RaindropClient client = server.client().url(second.url()).deadline(LONG).build()) {
          client.next("order");
        }
      }
      assertEquals(answers.size(), second.requests.size());
    }
  }

  @Test
  void a_problem_may_have_no_detail() {
    server.handler =
        request ->
            FakeServer.response(
                "400 Bad Request", "application/problem+json", "", "{\"code\":\"a\"}");
    try (RaindropClient client = open()) {
      RaindropException.Problem problem =
          assertInstanceOf(
              RaindropException.Problem.class, fails(Kind.PROBLEM, () -> client.next("order")));
      assertEquals(List.of("a", ""), List.of(problem.code(), problem.detail()));
    }
  }

  @Test
  void a_problem_keeps_code_status_detail_and_retry_after() {
    server.handler = request -> FakeServer.problem(429, "too_many_requests", "7");
    try (RaindropClient client = openBriefly()) {
      RaindropException.Problem problem =
          assertInstanceOf(
              RaindropException.Problem.class, fails(Kind.PROBLEM, () -> client.next("order")));
      assertEquals("too_many_requests", problem.code());
      assertEquals(429, problem.status());
      assertEquals("what happened", problem.detail());
      assertEquals(Duration.ofSeconds(7), problem.retryAfter().orElseThrow());
    }
  }

  @Test
  void a_back_off_answers_with_the_last_error_at_once() {
    server.handler = request -> FakeServer.problem(503, "lease_unavailable", "3600");
    try (RaindropClient client = openBriefly()) {
      RaindropException first = fails(Kind.PROBLEM, () -> client.next("order"));
      RaindropException second = fails(Kind.PROBLEM, () -> client.next("order"));
      assertNotSame(first, second);
      assertSame(first.getCause(), second.getCause());
      fails(Kind.PROBLEM, () -> client.code("order").next(Duration.ZERO));
      assertTrue(client.code("order").tryNext().isEmpty());
    }
    assertEquals(1, server.requests.size());
    assertEquals(1, metrics.failedRequests.get());
  }

  @Test
  void a_call_waits_for_the_end_of_a_back_off_that_it_can_outlast() {
    server.handler =
        request ->
            server.requests.size() < 3
                ? FakeServer.problem(503, "lease_unavailable", null)
                : server.ids(request.upTo());
    try (RaindropClient client = open()) {
      assertEquals(1, client.next("order"));
      assertEquals(3, server.requests.size());
      // The buffer is empty again, and the back-off is over.
      fails(Kind.DEADLINE, () -> client.code("order").next(Duration.ZERO));
    }
  }

  @Test
  void a_call_without_time_that_follows_no_error_has_reached_its_deadline() throws Exception {
    server.handler =
        request ->
            request.head().contains("/fresh?")
                ? null
                : FakeServer.problem(404, "unknown_code", null);
    try (RaindropClient client = open()) {
      fails(Kind.DEADLINE, () -> client.code("fresh").next(Duration.ZERO));
      fails(Kind.PROBLEM, () -> client.next("order"));
      Thread.sleep(250); // The first back-off takes 200 ms at most.
      fails(Kind.DEADLINE, () -> client.code("order").next(Duration.ZERO));
    }
  }

  @Test
  void all_who_wait_for_a_failed_request_get_its_error() throws Exception {
    CountDownLatch answer = new CountDownLatch(1);
    server.handler =
        request -> {
          try {
            answer.await();
          } catch (InterruptedException e) {
            return null;
          }
          return FakeServer.problem(503, "store_unavailable", "3600");
        };
    try (RaindropClient client = openBriefly()) {
      List<Future<Kind>> calls = new ArrayList<>();
      CountDownLatch begun = new CountDownLatch(8);
      for (int i = 0; i < 8; i++) {
        calls.add(
            threads.submit(
                () -> {
                  begun.countDown();
                  return assertThrows(RaindropException.class, () -> client.next("order")).kind();
                }));
      }
      begun.await();
      answer.countDown();
      for (Future<Kind> call : calls) {
        assertEquals(Kind.PROBLEM, call.get());
      }
    }
    assertEquals(1, server.requests.size());
  }

  @Test
  void a_server_that_hangs_ends_with_the_deadline_of_each_call() throws Exception {
    server.handler = request -> null;
    try (RaindropClient client =
        server.client().deadline(Duration.ofMillis(50)).requestTimeout(LONG).build()) {
      fails(Kind.DEADLINE, () -> client.next("order"));
      fails(Kind.DEADLINE, () -> client.code("order").nextMany(2, Duration.ZERO));
      fails(Kind.DEADLINE, () -> client.nextText("order"));
      // All of them may end before the server has read their request.
      eventually(() -> !server.requests.isEmpty());
    }
    assertEquals(1, server.requests.size());
  }

  @Test
  void a_call_that_ends_while_the_next_attempt_hangs_gets_the_error_of_the_one_before() {
    server.handler =
        request ->
            server.requests.size() > 1 ? null : FakeServer.problem(503, "store_unavailable", null);
    try (RaindropClient client = server.client().deadline(BRIEF).build()) {
      fails(Kind.PROBLEM, () -> client.next("order"));
    }
    assertEquals(2, server.requests.size());
  }

  @Test
  void a_request_that_gets_no_whole_answer_in_time_fails() throws Exception {
    for (String stalled :
        new String[] {
          null, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        }) {
      server.handler = request -> stalled;
      try (RaindropClient client =
          server
              .client()
              .metrics(metrics)
              .deadline(LONG)
              .requestTimeout(Duration.ofSeconds(1))
              .build()) {
        assertEquals(Kind.TRANSPORT, refused(client).kind());
      }
    }
    assertEquals(2, metrics.failedRequests.get());
  }

  @Test
  void an_interrupt_ends_a_wait_and_stays_set() throws Exception {
    server.handler = request -> null;
    try (RaindropClient client = open()) {
      AtomicBoolean flag = new AtomicBoolean();
      Thread caller =
          new Thread(
              () -> {
                fails(Kind.CANCELLED, () -> client.next("order"));
                flag.set(Thread.currentThread().isInterrupted());
              });
      caller.start();
      eventually(() -> !server.requests.isEmpty());
      caller.interrupt();
      caller.join();
      assertTrue(flag.get());
    }
  }

  @Test
  void an_interrupted_thread_still_draws_from_a_warm_buffer() {
    try (RaindropClient client = server.client().minRange(2).build()) {
      client.next("order");
      Thread.currentThread().interrupt();
      assertEquals(2, client.next("order"));
      assertTrue(Thread.interrupted());
    }
  }

  @Test
  void close_ends_waits_and_fails_later_calls() throws Exception {
    server.handler = request -> request.head().contains("/other?") ? server.ids(10) : null;
    RaindropClient client = server.client().metrics(metrics).minRange(10).deadline(LONG).build();
    Code other = client.code("other");
    other.next();
    Future<?> waiting = threads.submit(() -> fails(Kind.CLOSED, () -> client.next("order")));
    eventually(() -> server.requests.size() == 2);
    client.close();
    waiting.get();
    fails(Kind.CLOSED, other::next);
    fails(Kind.CLOSED, other::tryNext);
    fails(Kind.CLOSED, () -> client.nextText("third"));
    assertEquals(9, metrics.idsDropped.get());
    eventually(() -> metrics.failedRequests.get() == 1);
    client.close();
  }

  @Test
  void the_client_fails_over_at_once_and_stays_with_the_url_that_answered() throws Exception {
    try (FakeServer second = new FakeServer()) {
      server.handler = request -> FakeServer.problem(503, "lease_unavailable", "3600");
      try (RaindropClient client =
          server.client().url(second.url() + "/").metrics(metrics).build()) {
        assertEquals(1, client.next("order"));
        assertEquals(2, client.next("other"));
        assertEquals(1, server.requests.size());
        second.handler =
            request -> FakeServer.response("502 Bad Gateway", "text/html", "", "sorry");
        server.handler = request -> server.ids(1);
        assertEquals(1, client.next("third"));
        server.close();
        fails(Kind.TRANSPORT, () -> client.next("fourth"));
      }
    }
    assertTrue(metrics.failedRequests.get() >= 4);
  }

  @Test
  void events_name_the_url_and_the_error() throws Exception {
    try (FakeServer second = new FakeServer();
        RaindropClient client =
            server
                .client()
                .url(second.url())
                .metrics(metrics)
                .minRange(7)
                .deadline(BRIEF)
                .build()) {
      server.handler = request -> FakeServer.problem(503, "lease_unavailable", "3600");
      client.warmUp("order");
      assertEquals(1, metrics.waits.get());
      assertEquals(List.of(), metrics.failedWaits);
      second.handler = server.handler;
      RaindropException error = fails(Kind.PROBLEM, () -> client.warmUp("other"));
      assertSame(error, metrics.failedWaits.get(0));
      assertEquals(2, metrics.waits.get());
      assertEquals("order " + server.url() + " 7", describe(metrics.ended.get(0)));
      assertEquals("order " + second.url() + " 7", describe(metrics.ended.get(1)));
      assertTrue(metrics.ended.get(1).duration().compareTo(Duration.ZERO) > 0);
    }
  }

  private static String describe(RaindropMetrics.Request request) {
    return request.code() + " " + request.url() + " " + request.upTo();
  }

  @Test
  void what_is_thrown_on_the_way_fails_over() throws Exception {
    try (FakeServer second = new FakeServer();
        RaindropClient client =
            server.client().url(second.url()).metrics(metrics).deadline(LONG).build()) {
      server.handler = request -> FakeServer.response("200 OK", ";", "", server.ids(1));
      assertEquals(1, client.next("order"));
      assertEquals(Kind.INVALID_ANSWER, metrics.errors.get(0).kind());
    }
  }

  @Test
  void a_url_is_not_asked_before_its_retry_after_is_over_and_the_others_are() throws Exception {
    try (FakeServer second = new FakeServer()) {
      server.handler = request -> server.requests.size() < 3 ? "HTTP/1.1 CUT" : server.ids(1);
      second.handler = request -> FakeServer.problem(503, "lease_unavailable", "3600");
      try (RaindropClient client = server.client().url(second.url()).deadline(LONG).build()) {
        // The first request is repeated on a new connection, and the second URL asked; after the
        // back-off:
        assertEquals(1, client.next("order"));
      }
      assertEquals(List.of(3, 1), List.of(server.requests.size(), second.requests.size()));
    }
  }

  @Test
  void a_back_off_ends_when_the_first_url_may_be_asked_again() throws Exception {
    try (FakeServer second = new FakeServer()) {
      server.handler = request -> FakeServer.problem(503, "lease_unavailable", "3600");
      second.handler =
          request ->
              request.head().contains("/order?") || second.requests.size() < 3
                  ? FakeServer.problem(
                      503, "lease_unavailable", request.head().contains("/order?") ? "3600" : "1")
                  : second.ids(1);
      try (RaindropClient client = server.client().url(second.url()).deadline(BRIEF).build()) {
        fails(Kind.PROBLEM, () -> client.next("order"));
        fails(Kind.PROBLEM, () -> client.next("order"));
        assertEquals(List.of(1, 1), List.of(server.requests.size(), second.requests.size()));
        assertEquals(1, client.next("other"));
      }
      assertEquals(List.of(2, 3), List.of(server.requests.size(), second.requests.size()));
    }
  }

  @Test
  void an_error_of_the_request_does_not_fail_over_and_its_retry_after_is_for_all_urls()
      throws Exception {
    try (FakeServer second = new FakeServer()) {
      server.handler = request -> FakeServer.problem(403, "forbidden", "3600");
      try (RaindropClient client = server.client().url(second.url()).deadline(BRIEF).build()) {
        fails(Kind.PROBLEM, () -> client.next("order"));
        fails(Kind.PROBLEM, () -> client.next("order"));
      }
      assertEquals(List.of(1, 0), List.of(server.requests.size(), second.requests.size()));
    }
  }

  @Test
  void a_count_that_the_layout_does_not_allow_is_halved() {
    server.handler =
        request ->
            request.upTo() > 300
                ? FakeServer.problem(400, "invalid_count", null)
                : server.ids(request.upTo());
    try (RaindropClient client =
        server.client().minRange(1_000).metrics(metrics).deadline(LONG).build()) {
      assertEquals(600, client.nextMany("order", 600).length);
    }
    assertEquals(
        List.of(1_000L, 500L, 250L, 250L, 250L),
        server.requests.stream().map(FakeServer.Request::upTo).limit(5).toList());
  }

  @Test
  void a_hook_that_throws_fails_the_request_and_the_next_call_recovers() {
    AtomicBoolean broken = new AtomicBoolean(true);
    AtomicInteger failures = new AtomicInteger();
    RaindropMetrics hook =
        new RaindropMetrics() {
          @Override
          public void requestFinished(Request request, long ids) {
            if (broken.get()) {
              throw new IllegalStateException("broken hook");
            }
          }

          @Override
          public void requestFailed(Request request, RaindropException error) {
            failures.incrementAndGet();
            throw new NoClassDefFoundError("broken hook");
          }
        };
    try (RaindropClient client = server.client().metrics(hook).deadline(LONG).build()) {
      assertTrue(
          fails(Kind.USAGE, () -> client.next("order")).getMessage().contains("broken hook"));
      assertEquals(1, failures.get());
      broken.set(false);
      assertEquals(2, client.next("order"));
    }
  }

  @Test
  void a_hook_that_throws_an_error_keeps_no_lock() throws Exception {
    server.handler =
        request ->
            server.requests.size() == 1
                ? server.ids(2)
                : FakeServer.problem(404, "unknown_code", "3600");
    RaindropMetrics hook =
        new RaindropMetrics() {
          @Override
          public void idsDropped(String code, long ids) {
            throw new NoClassDefFoundError("broken hook");
          }
        };
    try (RaindropClient client = server.client().metrics(hook).deadline(BRIEF).build()) {
      fails(Kind.PROBLEM, () -> client.nextMany("order", 3));
      threads.submit(() -> fails(Kind.PROBLEM, () -> client.next("order"))).get();
    }
  }

  @Test
  void a_token_supplier_that_throws_fails_the_request_and_the_next_one_calls_it_again() {
    AtomicInteger calls = new AtomicInteger();
    try (RaindropClient client =
        server
            .client()
            .metrics(metrics)
            .deadline(LONG)
            .token(
                () ->
                    switch (calls.getAndIncrement()) {
                      case 0 -> throw new IllegalStateException("no token");
                      case 1 -> "secret\n";
                      default -> "t" + calls.get();
                    })
            .build()) {
      client.next("order");
      client.next("other");
    }
    assertEquals(
        List.of(Kind.TRANSPORT, Kind.TRANSPORT),
        metrics.errors.stream().map(RaindropException::kind).toList());
    assertTrue(metrics.errors.get(0).getMessage().contains("no token"));
    assertFalse(metrics.errors.get(1).getMessage().contains("secret"));
    assertTrue(server.requests.get(0).head().contains("Authorization: Bearer t3\r\n"));
    assertTrue(server.requests.get(1).head().contains("Authorization: Bearer t4\r\n"));
  }

  @Test
  void a_token_supplier_that_hangs_fails_the_request_and_keeps_no_other_code() throws Exception {
    CountDownLatch release = new CountDownLatch(1);
    CountDownLatch interrupted = new CountDownLatch(1);
    AtomicInteger calls = new AtomicInteger();
    RaindropClient.Builder builder =
        server.client().metrics(metrics).deadline(LONG).requestTimeout(Duration.ofSeconds(1));
    builder.token(
        () -> {
          if (calls.getAndIncrement() == 0) {
            assertThrows(InterruptedException.class, release::await);
            interrupted.countDown();
          }
          return "secret";
        });
    try (RaindropClient client = builder.build()) {
      client.next("order");
      client.next("other");
      // Not only when the client is closed: each attempt would leave a thread that hangs.
      assertTrue(interrupted.await(LONG.toSeconds(), TimeUnit.SECONDS));
    }
    assertEquals(Kind.TRANSPORT, metrics.errors.get(0).kind());
  }

  @Test
  void an_asynchronous_token_is_sent_when_it_comes() throws Exception {
    CompletableFuture<String> token = new CompletableFuture<>();
    try (RaindropClient client = server.client().deadline(LONG).tokenAsync(() -> token).build()) {
      Future<Long> id = threads.submit(() -> client.next("order"));
      token.complete("later");
      assertEquals(1, id.get());
    }
    assertTrue(server.requests.get(0).head().contains("Authorization: Bearer later\r\n"));
  }

  @Test
  void a_wrong_answer_of_one_node_makes_the_client_ask_the_next() throws Exception {
    List<String> answers =
        List.of(
            FakeServer.response("200 OK", "text/html", "", "<html>"),
            FakeServer.response("200 OK", "application/json", "", "{\"ranges\":["),
            FakeServer.problem(401, "unauthorized", null),
            FakeServer.problem(429, "too_many_requests", "60"),
            FakeServer.problem(500, "internal", null));
    try (FakeServer second = new FakeServer()) {
      for (String answer : answers) {
        server.handler = request -> answer;
        server.requests.clear();
        try (RaindropClient client = server.client().url(second.url()).deadline(LONG).build()) {
          client.next("order");
          client.next("other");
        }
        assertEquals(1, server.requests.size(), answer);
      }
    }
  }

  @Test
  void a_buffer_that_runs_dry_is_followed_by_twice_as_many_ids() {
    try (RaindropClient client = open()) { // Its clock stands still.
      for (int i = 0; i < 100; i++) {
        client.next("order");
      }
    }
    assertTrue(server.requests.size() < 10, server.requests.size() + " requests");
  }

  @Test
  void a_kept_connection_that_was_dropped_costs_no_error() throws Exception {
    AtomicInteger heads = new AtomicInteger();
    server.handler = request -> heads.getAndIncrement() % 2 == 1 ? "DROP" : server.ids(1);
    try (RaindropClient client = open()) {
      for (long id = 1; id <= 5; id++) {
        assertEquals(id, client.next("order"));
      }
      assertEquals(0, metrics.failedRequests.get());
    }
  }

  @Test
  void warm_up_waits_for_ids_and_takes_none() throws Exception {
    try (RaindropClient client = server.client().minRange(3).deadline(LONG).build()) {
      client.warmUp("order");
      client.warmUp("order");
      assertEquals(1, client.code("order").tryNext().getAsLong());
      server.handler = request -> FakeServer.problem(404, "unknown_code", null);
      fails(Kind.PROBLEM, () -> client.warmUp("unknown"));
    }
    assertEquals(2, server.requests.size());
  }

  @Test
  void a_request_leaves_time_for_the_next_url() {
    RaindropClient.Builder one = server.client().deadline(Duration.ofSeconds(4));
    RaindropClient.Builder two = server.client().deadline(Duration.ofSeconds(4)).url(server.url());
    try (RaindropClient single = one.build();
        RaindropClient pair = two.build();
        RaindropClient hasty = two.deadline(Duration.ofMillis(1)).build()) {
      List<Long> timeouts =
          List.of(single.requestTimeout, pair.requestTimeout, hasty.requestTimeout);
      assertEquals(List.of(5_000_000_000L, 2_000_000_000L, 1_000_000_000L), timeouts);
    }
  }

  @Test
  void requests_name_the_client() {
    try (RaindropClient client = open()) {
      client.next("order");
    }
    assertTrue(server.requests.get(0).head().contains("User-Agent: raindrop-java/0.1.0\r\n"));
  }

  @Test
  void the_namespace_is_part_of_the_request() {
    try (RaindropClient client = server.client().namespace("a&b").build()) {
      client.next("order");
    }
    assertTrue(
        server
            .requests
            .get(0)
            .head()
            .startsWith("POST /ids/order?format=range&up_to=1&namespace=a%26b HTTP"));
  }

  @Test
  void wrong_arguments_are_named() {
    try (RaindropClient client = server.client().maxRange(10).build()) {
      for (int n : new int[] {Integer.MIN_VALUE, 0, 11}) {
        fails(Kind.USAGE, () -> client.nextMany("order", n));
        fails(Kind.USAGE, () -> client.code("order").nextTextMany(n, LONG));
      }
      for (String code : List.of("", "-a", "a/b", "a?b", "a".repeat(65))) {
        fails(Kind.USAGE, () -> client.next(code));
      }
    }
    for (String url :
        List.of(
            "",
            "ids.example.org",
            "ftp://ids.example.org",
            "http://",
            "http://u@h",
            "http://h?q")) {
      fails(Kind.USAGE, () -> RaindropClient.builder().url(url));
    }
    for (String url :
        List.of("http://raindrop_1:8080", "http://h{x}", "http://h:port", "http://h/{x}")) {
      assertTrue(
          fails(Kind.USAGE, () -> RaindropClient.builder().url(url)).getMessage().contains(url));
    }
    for (String token : List.of("", "two words", "secret\n", "\u00e9")) {
      RaindropException error = fails(Kind.USAGE, () -> RaindropClient.builder().token(token));
      assertFalse(error.getMessage().contains("secret"));
    }
    fails(Kind.USAGE, () -> RaindropClient.builder().build());
    fails(Kind.USAGE, () -> server.client().minRange(0).build());
    fails(Kind.USAGE, () -> server.client().minRange(2).maxRange(1).build());
    fails(Kind.USAGE, () -> server.client().target(Duration.ZERO));
    fails(Kind.USAGE, () -> server.client().maxAge(Duration.ofSeconds(-1)));
    HttpClient follows =
        HttpClient.newBuilder().followRedirects(HttpClient.Redirect.NORMAL).build();
    fails(Kind.USAGE, () -> server.client().httpClient(follows).build());
    assertEquals(0, server.requests.size());
  }

  @Test
  void a_failed_refill_is_logged_once_a_minute_and_one_of_a_closed_client_is_not()
      throws Exception {
    List<String> lines = new CopyOnWriteArrayList<>();
    Handler handler =
        new Handler() {
          @Override
          public void publish(LogRecord line) {
            lines.add(line.getMessage());
          }

          @Override
          public void flush() {}

          @Override
          public void close() {}
        };
    Logger logger = Logger.getLogger("org.example.raindrop");
    logger.addHandler(handler);
    try {
      server.handler = request -> null;
      RaindropClient closed = open();
      assertTrue(closed.code("order").tryNext().isEmpty());
      eventually(() -> server.requests.size() == 1);
      closed.close();
      // The hook is called before the code gets the error, which the next client's outlasts.
      eventually(() -> metrics.errors.size() == 1);

      server.handler = request -> FakeServer.problem(503, "lease_unavailable", null);
      try (RaindropClient client = server.client().metrics(metrics).deadline(BRIEF).build()) {
        fails(Kind.PROBLEM, () -> client.next("order"));
        fails(Kind.PROBLEM, () -> client.next("other"));
      }
      assertEquals(List.of("refill of code {0} failed: {1}"), lines);
    } finally {
      logger.removeHandler(handler);
    }
  }
}
