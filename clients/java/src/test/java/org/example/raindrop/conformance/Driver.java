package org.example.raindrop.conformance;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalLong;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import org.example.raindrop.Code;
import org.example.raindrop.CountingMetrics;
import org.example.raindrop.RaindropClient;
import org.example.raindrop.RaindropException;
import org.example.raindrop.TestJson;

/**
 * The driver of the conformance suite: reads a request from each line of the input, and answers
 * with a line.
 */
public final class Driver {
  private final Map<Integer, CompletableFuture<String>> started = new HashMap<>();
  private final CountingMetrics metrics = new CountingMetrics();
  private RaindropClient client;

  public static void main(String[] arguments) throws IOException {
    BufferedReader input =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    new Driver().run(input, new PrintStream(System.out, true, StandardCharsets.UTF_8));
    System.exit(0); // A call that still waits in the background must not keep the process.
  }

  /** Answers all requests of the input. */
  public void run(BufferedReader input, PrintStream output) throws IOException {
    for (String line; (line = input.readLine()) != null; ) {
      Map<?, ?> request = (Map<?, ?>) TestJson.parse(line);
      String answer;
      if (request.get("do").equals("await")) {
        answer = started.remove((int) number(request, "started", 0)).join();
      } else if (Boolean.TRUE.equals(request.get("background"))) {
        int number = (int) number(request, "number", started.size() + 1);
        while (started.containsKey(number)) {
          number++;
        }
        CompletableFuture<String> result = new CompletableFuture<>();
        started.put(number, result);
        Thread thread = new Thread(() -> result.complete(answer(request)), "background " + number);
        thread.setDaemon(true);
        thread.start();
        answer = "{\"started\":" + number + "}";
      } else {
        answer = answer(request);
      }
      output.println(answer);
    }
  }

  private String answer(Map<?, ?> request) {
    long began = System.nanoTime();
    try {
      return switch ((String) request.get("do")) {
        case "open" -> open(request);
        case "next" -> ids(next(request), began);
        case "text" -> ids(texts(request), began);
        case "uuid" -> ids(uuids(request), began);
        case "try" -> {
          OptionalLong id = client.code((String) request.get("code")).tryNext();
          yield id.isPresent()
              ? ids(new String[] {Long.toString(id.getAsLong())}, began)
              : "{\"error\":{\"kind\":\"empty\"}}";
        }
        case "warm_up" -> {
          client.warmUp((String) request.get("code"));
          yield "{\"ok\":true}";
        }
        case "burst" -> burst(request);
        case "time_of" ->
            "{\"unix_ms\":"
                + client
                    .timeOf(
                        (String) request.get("code"), Long.parseLong((String) request.get("id")))
                    .toEpochMilli()
                + "}";
        case "stats" -> stats();
        case "close" -> {
          client.close();
          yield "{\"ok\":true}";
        }
        default -> throw new IllegalArgumentException("unknown request " + request);
      };
    } catch (RaindropException e) {
      return "{\"error\":"
          + error(e)
          + ",\"waited_ms\":"
          + milliseconds(System.nanoTime() - began)
          + "}";
    } catch (Exception e) {
      e.printStackTrace();
      return "{\"error\":{\"kind\":\"usage\",\"message\":" + quote(e.toString()) + "}}";
    }
  }

  private String open(Map<?, ?> request) {
    RaindropClient.Builder builder = RaindropClient.builder().metrics(metrics);
    for (Object url : (Iterable<?>) request.get("urls")) {
      builder.url((String) url);
    }
    if (request.get("token") instanceof String token) {
      List<?> faults = request.get("token_faults") instanceof List<?> list ? list : List.of();
      AtomicInteger calls = new AtomicInteger();
      // Each request checks it, so that one which cannot be sent opens, too.
      builder.token(() -> token(token, calls.getAndIncrement(), faults));
    }
    Map<?, ?> options = request.get("options") instanceof Map<?, ?> map ? map : Map.of();
    for (Map.Entry<?, ?> option : options.entrySet()) {
      long value = ((BigDecimal) option.getValue()).longValueExact();
      switch ((String) option.getKey()) {
        case "target_ms" -> builder.target(Duration.ofMillis(value));
        case "max_age_ms" -> builder.maxAge(Duration.ofMillis(value));
        case "min_range" -> builder.minRange((int) value);
        case "max_range" -> builder.maxRange((int) value);
        case "deadline_ms" -> builder.deadline(Duration.ofMillis(value));
        case "request_timeout_ms" -> builder.requestTimeout(Duration.ofMillis(value));
        default -> throw new IllegalArgumentException("unknown option " + option.getKey());
      }
    }
    client = builder.build();
    return "{\"ok\":true}";
  }

  /** Returns the token, unless the faults have something else for this call. */
  private static String token(String token, int call, List<?> faults) {
    if (call >= faults.size()) {
      return token;
    }
    while (faults.get(call).equals("hang")) {
      LockSupport.park();
      // It ignores that it is interrupted. While a thread is, park returns at once.
      Thread.interrupted();
    }
    throw new IllegalStateException("no token today");
  }

  private String[] next(Map<?, ?> request) {
    Code code = client.code((String) request.get("code"));
    long timeout = number(request, "deadline_ms", -1);
    if (!request.containsKey("n")) {
      return new String[] {
        Long.toString(timeout < 0 ? code.next() : code.next(Duration.ofMillis(timeout)))
      };
    }
    int n = (int) number(request, "n", 1);
    long[] ids = timeout < 0 ? code.nextMany(n) : code.nextMany(n, Duration.ofMillis(timeout));
    return Arrays.stream(ids).mapToObj(Long::toString).toArray(String[]::new);
  }

  private String[] texts(Map<?, ?> request) {
    Code code = client.code((String) request.get("code"));
    if (!request.containsKey("n")) {
      return new String[] {code.nextText()};
    }
    Duration timeout = Duration.ofMillis(number(request, "deadline_ms", 10_000));
    return code.nextTextMany((int) number(request, "n", 1), timeout);
  }

  private String[] uuids(Map<?, ?> request) {
    Code code = client.code((String) request.get("code"));
    if (!request.containsKey("n")) {
      return new String[] {code.nextUuid().toString()};
    }
    Duration timeout = Duration.ofMillis(number(request, "deadline_ms", 10_000));
    UUID[] uuids = code.nextUuidMany((int) number(request, "n", 1), timeout);
    return Arrays.stream(uuids).map(UUID::toString).toArray(String[]::new);
  }

  /** What one thread of a burst did. */
  private static final class Drawn {
    long[] ids;
    int count;
    long failed;
    long longestWait;
    long oldest = Long.MIN_VALUE;
  }

  private String burst(Map<?, ?> request) throws Exception {
    Code code = client.code((String) request.get("code"));
    int count = (int) number(request, "count", 1);
    long perSecond = number(request, "per_second", 0);
    long timeout = number(request, "deadline_ms", -1);
    Drawn[] drawn = new Drawn[(int) number(request, "threads", 1)];
    CountDownLatch done = new CountDownLatch(drawn.length);
    for (int i = 0; i < drawn.length; i++) {
      Drawn mine = drawn[i] = new Drawn();
      mine.ids = new long[count];
      Thread thread =
          new Thread(
              () -> {
                try {
                  draw(
                      code,
                      count,
                      perSecond,
                      timeout < 0 ? null : Duration.ofMillis(timeout),
                      mine);
                } finally {
                  done.countDown();
                }
              },
              "burst " + i);
      thread.setDaemon(true);
      thread.start();
    }
    done.await();
    if (request.get("file") instanceof String file) {
      try (BufferedWriter writer =
          Files.newBufferedWriter(
              Path.of(file), StandardOpenOption.CREATE, StandardOpenOption.APPEND)) {
        for (Drawn one : drawn) {
          for (int i = 0; i < one.count; i++) {
            writer.write(Long.toString(one.ids[i]));
            writer.write('\n');
          }
        }
      }
    }
    long longest = Arrays.stream(drawn).mapToLong(one -> one.longestWait).max().orElse(0);
    long oldest = Arrays.stream(drawn).mapToLong(one -> one.oldest).max().orElse(Long.MIN_VALUE);
    return "{\"drawn\":"
        + Arrays.stream(drawn).mapToLong(one -> one.count).sum()
        + ",\"failed\":"
        + Arrays.stream(drawn).mapToLong(one -> one.failed).sum()
        + ",\"longest_wait_ms\":"
        + milliseconds(longest)
        + ",\"oldest_ms\":"
        + (oldest == Long.MIN_VALUE ? "null" : oldest)
        + "}";
  }

  private static void draw(Code code, int count, long perSecond, Duration timeout, Drawn drawn) {
    long start = System.nanoTime();
    boolean timed = true;
    for (int i = 0; i < count; i++) {
      if (perSecond > 0) {
        long due = start + i * TimeUnit.SECONDS.toNanos(1) / perSecond;
        for (long left; (left = due - System.nanoTime()) > 0; ) {
          LockSupport.parkNanos(left);
        }
      }
      long began = System.nanoTime();
      try {
        long id = timeout == null ? code.next() : code.next(timeout);
        drawn.longestWait = Math.max(drawn.longestWait, System.nanoTime() - began);
        drawn.ids[drawn.count++] = id;
        if (timed) {
          drawn.oldest =
              Math.max(drawn.oldest, System.currentTimeMillis() - code.timeOf(id).toEpochMilli());
        }
      } catch (RaindropException e) {
        if (e.kind() == RaindropException.Kind.USAGE) {
          timed = false; // IDs of segment mode have no time.
        } else {
          drawn.failed++;
          drawn.longestWait = Math.max(drawn.longestWait, System.nanoTime() - began);
        }
      }
    }
  }

  private String stats() throws IOException {
    Path statm = Path.of("/proc/self/statm");
    long memory =
        Files.exists(statm)
            ? Long.parseLong(Files.readString(statm).split(" ")[1]) * 4096
            : Runtime.getRuntime().totalMemory();
    return "{\"requests\":"
        + metrics.requests
        + ",\"failed_requests\":"
        + metrics.failedRequests
        + ",\"ids_fetched\":"
        + metrics.idsFetched
        + ",\"ids_dropped\":"
        + metrics.idsDropped
        + ",\"memory_bytes\":"
        + memory
        + "}";
  }

  private static String ids(String[] ids, long began) {
    return "{\"ids\":"
        + Arrays.stream(ids).map(Driver::quote).collect(Collectors.joining(",", "[", "]"))
        + ",\"waited_ms\":"
        + milliseconds(System.nanoTime() - began)
        + "}";
  }

  private static String error(RaindropException e) {
    StringBuilder json =
        new StringBuilder("{\"kind\":\"" + e.kind().name().toLowerCase(Locale.ROOT) + "\"");
    if (e instanceof RaindropException.Problem problem) {
      json.append(",\"code\":").append(quote(problem.code()));
    }
    if (e.status() != 0) {
      json.append(",\"status\":").append(e.status());
    }
    e.retryAfter().ifPresent(wait -> json.append(",\"retry_after_ms\":").append(wait.toMillis()));
    return json.append(",\"message\":").append(quote(e.getMessage())).append("}").toString();
  }

  private static String milliseconds(long nanos) {
    return String.format(Locale.ROOT, "%.3f", nanos / 1e6);
  }

  private static String quote(String text) {
    StringBuilder quoted = new StringBuilder("\"");
    for (char c : text.toCharArray()) {
      quoted.append(
          c == '"' || c == '\\' || c < ' ' ? String.format("\\u%04x", (int) c) : String.valueOf(c));
    }
    return quoted.append('"').toString();
  }

  private static long number(Map<?, ?> request, String name, long otherwise) {
    return request.get(name) instanceof BigDecimal number ? number.longValueExact() : otherwise;
  }
}
