package org.example.raindrop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.IntFunction;
import java.util.function.LongSupplier;
import java.util.stream.Stream;
import org.example.raindrop.RaindropException.Kind;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;

@Timeout(60)
class UuidTest {
  private static final Duration LONG = Duration.ofSeconds(30);
  private static final String TIME =
      "\"layout\":\"millisecond\","
          + "\"time\":{\"epoch_ms\":1735689600000,\"unit_ms\":1,\"shift\":22,\"bits\":41}";

  /** Returns a server whose answers have other fields beside the ranges. */
  private static FakeServer serve(String fields) throws Exception {
    FakeServer server = new FakeServer();
    server.handler =
        request ->
            "{" + fields + ",\"ranges\":[" + FakeServer.range(1_000_000, 1, request.upTo()) + "]}";
    return server;
  }

  @Test
  void uuids_have_the_bits_of_the_contract() throws Exception {
    List<?> vectors =
        (List<?>) TestJson.parse(Files.readString(Path.of("../conformance/uuids.json")));
    assertEquals(8, vectors.size());
    for (Object item : vectors) {
      Map<?, ?> vector = (Map<?, ?>) item;
      Map<?, ?> time = (Map<?, ?>) vector.get("time");
      int bits = ((BigDecimal) time.get("bits")).intValueExact();
      Answer.Time field =
          new Answer.Time(
              ((BigDecimal) time.get("epoch_ms")).longValueExact(),
              1,
              ((BigDecimal) time.get("shift")).intValueExact(),
              -1L >>> (64 - bits));
      BigInteger random = new BigInteger((String) vector.get("random"), 16);
      UUID uuid =
          field.uuid(
              Long.parseLong((String) vector.get("id")),
              random.shiftRight(10).longValue(),
              random.longValue());
      assertEquals(vector.get("uuid"), uuid.toString(), (String) vector.get("why"));
    }
  }

  @Test
  void uuids_ascend_and_differ_in_all_random_bits() throws Exception {
    try (FakeServer server = serve(TIME + ",\"prefix\":\"ORD-\"");
        RaindropClient client = server.client().minRange(400).deadline(LONG).build()) {
      List<UUID> uuids = new ArrayList<>(List.of(client.nextUuid("order")));
      uuids.addAll(List.of(client.code("order").nextUuidMany(300, LONG)));
      List<String> texts = uuids.stream().map(UUID::toString).toList();
      assertEquals(new HashSet<>(texts).stream().sorted().toList(), texts);
      long differ = 0;
      for (UUID uuid : uuids) {
        assertEquals(List.of(7, 2), List.of(uuid.version(), uuid.variant()));
        differ |= uuid.getLeastSignificantBits() ^ uuids.get(0).getLeastSignificantBits();
      }
      // 22 bits are fields.
      assertEquals(-1L >>> 12, differ & -1L >>> 12);
      assertEquals(1_000_301, client.next("order"));
    }
  }

  @Test
  void ids_without_uuids_are_a_usage_error() throws Exception {
    Map<String, String> refused =
        Map.of(
            "\"increment\":\"1\"",
            "have no time",
            "\"layout\":\"wraps=true\"",
            "or one that wraps",
            TIME.replace("\"unit_ms\":1,", "\"unit_ms\":10,"),
            "ticks of 10 ms",
            TIME.replace("1735689600000", "-1"),
            "begin at -1 Unix ms");
    for (Map.Entry<String, String> one : refused.entrySet()) {
      CountingMetrics metrics = new CountingMetrics();
      try (FakeServer server = serve(one.getKey());
          RaindropClient client = server.client().metrics(metrics).deadline(LONG).build()) {
        Stream<Executable> calls =
            Stream.of(
                () -> client.nextUuid("order"), () -> client.code("many").nextUuidMany(2, LONG));
        for (Executable call : calls.toList()) {
          RaindropException error = assertThrows(RaindropException.class, call);
          assertEquals(Kind.USAGE, error.kind());
          assertTrue(error.getMessage().contains(one.getValue()), error.getMessage());
        }
        assertEquals(1 + 2, metrics.idsDropped.get());
      }
    }
  }

  /**
   * What a service answers whose operator moves a namespace: the fields beside the ranges, and the
   * first ID with its Unix milliseconds, which thousands of IDs after it have, too.
   */
  private record Layout(String fields, long id, long ms) {
    boolean wrote(UUID uuid) {
      long since = (uuid.getMostSignificantBits() >>> 16) - ms;
      return since >= 0 && since < 1000;
    }
  }

  private static final Layout BEFORE = new Layout(TIME, 252201579132751872L, 1795819142144L);
  private static final Layout AFTER =
      new Layout(
          TIME.replace("\"shift\":22,\"bits\":41", "\"shift\":13,\"bits\":50"),
          491212350996480L,
          1795652045190L);
  private static final Layout SEGMENTS = new Layout("\"increment\":\"1\"", 7, 0);

  /** Returns a server that answers with up to 50 IDs of the layout of each answer's number. */
  private static FakeServer move(IntFunction<Layout> layout) throws Exception {
    FakeServer server = new FakeServer();
    AtomicInteger answers = new AtomicInteger();
    Map<Layout, AtomicLong> next = new ConcurrentHashMap<>();
    server.handler =
        request -> {
          Layout now = layout.apply(answers.incrementAndGet());
          long count = Math.min(request.upTo(), 50);
          long first = next.computeIfAbsent(now, key -> new AtomicLong(key.id)).getAndAdd(count);
          return "{" + now.fields + ",\"ranges\":[" + FakeServer.range(first, 1, count) + "]}";
        };
    return server;
  }

  @Test
  void uuids_of_a_call_are_of_the_layout_of_its_last_answer() throws Exception {
    CountingMetrics metrics = new CountingMetrics();
    try (FakeServer server = move(answer -> answer == 1 ? BEFORE : AFTER);
        RaindropClient client = server.client().metrics(metrics).deadline(LONG).build()) {
      UUID[] uuids = client.code("order").nextUuidMany(60, LONG);
      assertEquals(60, Stream.of(uuids).filter(AFTER::wrote).distinct().count());
      assertEquals(50, metrics.idsDropped.get());
    }
  }

  @Test
  void a_buffer_of_another_layout_is_dropped() throws Exception {
    CountingMetrics metrics = new CountingMetrics();
    try (FakeServer server = move(answer -> BEFORE);
        RaindropClient client =
            server.client().metrics(metrics).minRange(50).deadline(LONG).build()) {
      Code code = client.code("order");
      assertTrue(BEFORE.wrote(code.nextUuid()));
      code.refilled(refill(BEFORE, 1000));
      assertTrue(BEFORE.wrote(code.nextUuid()));
      assertEquals(0, metrics.idsDropped.get());
      code.refilled(refill(AFTER, 0));
      assertEquals(98, metrics.idsDropped.get());
      assertTrue(AFTER.wrote(code.nextUuid()));
      code.refilled(refill(SEGMENTS, 0));
      assertEquals(98 + 49, metrics.idsDropped.get());
      for (Executable call :
          List.<Executable>of(
              code::nextUuid, () -> code.nextUuidMany(1, LONG), () -> code.timeOf(AFTER.id))) {
        assertEquals(Kind.USAGE, assertThrows(RaindropException.class, call).kind());
      }
      assertEquals(SEGMENTS.id + 2, code.next());
    }
  }

  /** Returns an answer of 50 IDs, checked, with a first ID so far from the layout's. */
  private static Answer refill(Layout layout, long from) {
    String ranges = FakeServer.range(layout.id + from, 1, 50);
    String body = "{" + layout.fields + ",\"ranges\":[" + ranges + "]}";
    return Answer.parse(
        body.getBytes(StandardCharsets.UTF_8), 50, System.nanoTime(), LONG.toNanos());
  }

  @Test
  void an_answer_that_comes_while_an_id_is_drawn_takes_it_back() throws Exception {
    CountingMetrics metrics = new CountingMetrics();
    AtomicReference<Runnable> meanwhile = new AtomicReference<>(() -> {});
    LongSupplier clock =
        () -> {
          meanwhile.getAndSet(() -> {}).run();
          return System.nanoTime();
        };
    try (FakeServer server = move(answer -> BEFORE);
        RaindropClient client =
            server.client().metrics(metrics).clock(clock).minRange(50).deadline(LONG).build()) {
      Code code = client.code("order");
      assertTrue(BEFORE.wrote(code.nextUuid()));
      // The clock is read after the draw.
      meanwhile.set(() -> code.refilled(refill(AFTER, 0)));
      assertTrue(AFTER.wrote(code.nextUuid()));
      assertEquals(49, metrics.idsDropped.get());
    }
  }

  @Test
  void no_uuid_has_the_time_of_another_answer() throws Exception {
    try (FakeServer server = move(answer -> answer / 2 % 2 == 0 ? BEFORE : AFTER);
        RaindropClient client = server.client().deadline(LONG).build()) {
      Code code = client.code("order");
      ExecutorService threads = Executors.newFixedThreadPool(4);
      try {
        List<Future<List<UUID>>> calls = new ArrayList<>();
        for (int thread = 1; thread <= 4; thread++) {
          int n = thread;
          calls.add(
              threads.submit(
                  () -> {
                    List<UUID> uuids = new ArrayList<>();
                    for (int call = 0; call < 400; call++) {
                      uuids.addAll(List.of(code.nextUuidMany(n, LONG)));
                      uuids.add(code.nextUuid());
                    }
                    return uuids;
                  }));
        }
        for (Future<List<UUID>> call : calls) {
          // With the time of the other answer, an instant would be years away.
          for (UUID uuid : call.get())
            assertTrue(BEFORE.wrote(uuid) || AFTER.wrote(uuid), uuid.toString());
        }
      } finally {
        threads.shutdownNow();
      }
    }
  }

  @Test
  void a_count_is_checked() {
    try (RaindropClient client = RaindropClient.builder().url("http://127.0.0.1:1").build()) {
      RaindropException error =
          assertThrows(RaindropException.class, () -> client.code("order").nextUuidMany(0, LONG));
      assertEquals(Kind.USAGE, error.kind());
    }
  }
}
