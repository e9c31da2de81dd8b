package org.example.raindrop.bench;

import cn.hutool.core.lang.Snowflake;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.IntToLongFunction;
import java.util.function.Supplier;
import me.ahoo.cosid.segment.IdSegmentDistributor;
import me.ahoo.cosid.segment.SegmentChainId;
import me.ahoo.cosid.snowflake.MillisecondSnowflakeId;
import org.example.raindrop.Code;
import org.example.raindrop.RaindropClient;

/**
 * Prints what one ID costs in one thread, beside {@link AtomicLong#incrementAndGet} and other
 * generators.
 */
final class Cost {
  private static final int ROUNDS = Integer.parseInt(System.getenv().getOrDefault("ROUNDS", "11"));
  private static final int CALLS = 2_000_000;
  private static final int MOST = 100_000_000;

  /** A snowflake has 4096 IDs in a millisecond, and spins when they are used up. */
  private static final int BURST = 2000;

  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
  private static volatile long sink;

  /**
   * A generator; {@code run} draws so many IDs in a loop of its own, which the compiler can inline.
   */
  private record Subject(String name, int burst, IntToLongFunction run, List<Double> nanos) {
    Subject(String name, int burst, IntToLongFunction run) {
      this(name, burst, run, new ArrayList<>());
    }

    double median() {
      return nanos.stream().sorted().toList().get(nanos.size() / 2);
    }
  }

  public static void main(String[] arguments) throws Exception {
    HttpServer server = serve();
    String url = "http://127.0.0.1:" + server.getAddress().getPort();
    RaindropClient.Builder settings =
        RaindropClient.builder().url(url).minRange(MOST).maxRange(MOST);
    try (RaindropClient client = settings.deadline(Duration.ofSeconds(60)).build()) {
      List<Subject> subjects = subjects(client);
      for (int round = -2; round < ROUNDS; round++) {
        for (Subject subject : subjects) {
          client.next("order");
          client.next("segment");
          double nanos = measure(subject);
          if (round >= 0) {
            subject.nanos.add(nanos);
          }
        }
      }
      print(subjects);
    } finally {
      server.stop(0);
    }
    // CosId's prefetching threads go on otherwise.
    System.exit(0);
  }

  private static List<Subject> subjects(RaindropClient client) {
    AtomicLong counter = new AtomicLong();
    Code order = client.code("order");
    Code segment = client.code("segment");
    Snowflake hutool = new Snowflake(1, 1);
    MillisecondSnowflakeId cosid = new MillisecondSnowflakeId(1);
    SegmentChainId chain = new SegmentChainId(new IdSegmentDistributor.Atomic(1000));
    return List.of(
        new Subject(
            "`AtomicLong.incrementAndGet`",
            CALLS,
            calls -> {
              long sum = 0;
              for (int i = 0; i < calls; i++) {
                sum += counter.incrementAndGet();
              }
              return sum;
            }),
        new Subject(
            "`System.nanoTime`",
            CALLS,
            calls -> {
              long sum = 0;
              for (int i = 0; i < calls; i++) {
                sum += System.nanoTime();
              }
              return sum;
            }),
        new Subject(
            "Raindrop, `handle.next()`, IDs with a time",
            CALLS,
            calls -> {
              long sum = 0;
              for (int i = 0; i < calls; i++) {
                sum += order.next();
              }
              return sum;
            }),
        new Subject(
            "Raindrop, `client.next(code)`, IDs with a time",
            CALLS,
            calls -> {
              long sum = 0;
              for (int i = 0; i < calls; i++) {
                sum += client.next("order");
              }
              return sum;
            }),
        new Subject(
            "Raindrop, `handle.nextText()`, IDs with a time",
            CALLS,
            calls -> {
              long sum = 0;
              for (int i = 0; i < calls; i++) {
                sum += order.nextText().length();
              }
              return sum;
            }),
        new Subject(
            "Raindrop, `handle.next()`, segment numbers",
            CALLS,
            calls -> {
              long sum = 0;
              for (int i = 0; i < calls; i++) {
                sum += segment.next();
              }
              return sum;
            }),
        new Subject(
            "Raindrop, `client.next(code)`, segment numbers",
            CALLS,
            calls -> {
              long sum = 0;
              for (int i = 0; i < calls; i++) {
                sum += client.next("segment");
              }
              return sum;
            }),
        new Subject(
            "CosId `SegmentChainId`, step 1000",
            CALLS,
            calls -> {
              long sum = 0;
              for (int i = 0; i < calls; i++) {
                sum += chain.generate();
              }
              return sum;
            }),
        new Subject(
            "CosId `MillisecondSnowflakeId`, in bursts",
            BURST,
            calls -> {
              long sum = 0;
              for (int i = 0; i < calls; i++) {
                sum += cosid.generate();
              }
              return sum;
            }),
        new Subject(
            "Hutool `Snowflake`, in bursts",
            BURST,
            calls -> {
              long sum = 0;
              for (int i = 0; i < calls; i++) {
                sum += hutool.nextId();
              }
              return sum;
            }));
  }

  /** Returns the nanoseconds of CPU time of one ID, without the waits between bursts. */
  private static double measure(Subject subject) {
    boolean isLimited = subject.burst < CALLS;
    int calls = isLimited ? CALLS / 20 : CALLS;
    long nanos = 0;
    for (int left = calls; left > 0; left -= subject.burst) {
      if (isLimited) {
        long last = System.currentTimeMillis();
        while (System.currentTimeMillis() == last) {
          Thread.onSpinWait();
        }
      }
      long start = THREADS.getCurrentThreadCpuTime();
      sink = subject.run.applyAsLong(subject.burst);
      nanos += THREADS.getCurrentThreadCpuTime() - start;
    }
    return (double) nanos / calls;
  }

  private static void print(List<Subject> subjects) {
    double base = subjects.get(0).median();
    System.out.println(
        "| one ID | ns, median | fastest to slowest round | × AtomicLong |\n|---|--:|--:|--:|");
    for (Subject subject : subjects) {
      System.out.printf(
          Locale.ROOT,
          "| %s | %.1f | %.1f to %.1f | %.1f |%n",
          subject.name,
          subject.median(),
          Collections.min(subject.nanos),
          Collections.max(subject.nanos),
          subject.median() / base);
    }
    System.out.println(
        "\nCPU time of the thread that draws. In bursts of "
            + BURST
            + ": a snowflake has 4096 IDs in a millisecond, then it waits.");
  }

  /**
   * Serves answers as the service gives them: rows of 4096 IDs, one for each millisecond, or
   * segment numbers.
   */
  private static HttpServer serve() throws IOException {
    HttpServer server =
        HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    long rows = MOST / 4096;
    AtomicLong nextId = new AtomicLong(252201579132751872L);
    AtomicLong nextNumber = new AtomicLong(1);
    answer(
        server,
        "order",
        () -> {
          long first = nextId.getAndAdd(rows << 22);
          return String.format(
              Locale.ROOT,
              """
              {"issued_at":"2026-11-28T09:30:00.123Z","layout":"benchmark","ranges":[
                {"first":"%d","last":"%d","step":"1","count":4096,"repeat":%d,"stride":"4194304"}]}
              """,
              first,
              first + ((rows - 1) << 22) + 4095,
              rows);
        });
    answer(
        server,
        "segment",
        () -> {
          long first = nextNumber.getAndAdd(MOST);
          return String.format(
              Locale.ROOT,
              """
              {"issued_at":"2026-11-28T09:30:00.123Z","increment":"1","ranges":[
                {"first":"%d","last":"%d","step":"1","count":%d}]}
              """,
              first,
              first + MOST - 1,
              MOST);
        });
    server.start();
    return server;
  }

  private static void answer(HttpServer server, String code, Supplier<String> answer) {
    server.createContext(
        "/ids/" + code,
        exchange -> {
          byte[] body = answer.get().getBytes(StandardCharsets.UTF_8);
          exchange.getResponseHeaders().set("Content-Type", "application/json");
          exchange.sendResponseHeaders(200, body.length);
          exchange.getResponseBody().write(body);
          exchange.close();
        });
  }
}
