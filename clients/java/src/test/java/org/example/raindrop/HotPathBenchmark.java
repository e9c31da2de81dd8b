package org.example.raindrop;

import java.util.Locale;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;

/**
 * Compares draws from a warm buffer with {@link AtomicLong#incrementAndGet}, in one thread. Run it
 * with {@code java -cp target/classes:target/test-classes org.example.raindrop.HotPathBenchmark}.
 */
final class HotPathBenchmark {
  private static final int DRAWS = 10_000_000;
  private static final int ROUNDS = 7;
  private static volatile long sink;

  public static void main(String[] arguments) throws Exception {
    try (FakeServer server = new FakeServer();
        RaindropClient client =
            server.client().minRange(1_000_000_000).maxRange(1_000_000_000).build()) {
      server.handler =
          request ->
              request.head().contains("/segment?")
                  ? "{\"increment\":1,\"ranges\":[" + FakeServer.range(1, 1, request.upTo()) + "]}"
                  : server.ids(request.upTo());
      Code order = client.code("order");
      Code segment = client.code("segment");
      AtomicLong counter = new AtomicLong();
      AtomicLong clocked = new AtomicLong();
      long baseline = measure("AtomicLong.incrementAndGet", 0, counter::incrementAndGet);
      measure("System.nanoTime", baseline, System::nanoTime);
      measure("both of them", baseline, () -> clocked.incrementAndGet() + System.nanoTime());
      measure("handle, segment mode", baseline, segment::next);
      measure("by name, segment mode", baseline, () -> client.next("segment"));
      measure("handle, layout", baseline, order::next);
      measure("by name, layout", baseline, () -> client.next("order"));
      measure("handle, layout, tryNext", baseline, () -> order.tryNext().orElse(0));
      measure(
          "handle, layout, an ID of nextMany(100)", baseline * 100, () -> order.nextMany(100)[0]);
      System.out.println(server.requests.size() + " requests");
    }
  }

  /** Returns the picoseconds of a call in the fastest round. */
  private static long measure(String name, long baseline, LongSupplier call) {
    int draws = baseline > 100_000 ? DRAWS / 100 : DRAWS;
    long best = Long.MAX_VALUE;
    for (int round = 0; round < ROUNDS; round++) {
      long start = System.nanoTime();
      long sum = 0;
      for (int i = 0; i < draws; i++) {
        sum += call.getAsLong();
      }
      best = Math.min(best, (System.nanoTime() - start) * 1000 / draws);
      sink = sum;
    }
    System.out.printf(
        Locale.ROOT,
        "%-42s %7.1f ns %6.2f times%n",
        name,
        best / 1e3,
        baseline == 0 ? 1 : (double) best / baseline);
    return best;
  }
}
