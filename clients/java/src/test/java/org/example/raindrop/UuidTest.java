package org.example.raindrop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.UUID;
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
      try (FakeServer server = serve(one.getKey());
          RaindropClient client = server.client().deadline(LONG).build()) {
        Stream<Executable> calls =
            Stream.of(
                () -> client.nextUuid("order"), () -> client.code("many").nextUuidMany(2, LONG));
        for (Executable call : calls.toList()) {
          RaindropException error = assertThrows(RaindropException.class, call);
          assertEquals(Kind.USAGE, error.kind());
          assertTrue(error.getMessage().contains(one.getValue()), error.getMessage());
        }
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
