package org.example.raindrop.bench;

import java.io.File;
import java.io.IOException;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.Locale;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import org.example.raindrop.Code;
import org.example.raindrop.RaindropClient;
import org.example.raindrop.RaindropException;
import org.example.raindrop.RaindropMetrics;

/** Prints how many requests one process sends to the real service, whose binary is the argument. */
final class Requests {
  private static final int SECONDS = Integer.parseInt(System.getenv().getOrDefault("SECONDS", "5"));
  private static final int WARM_UP = 3;

  public static void main(String[] arguments) throws Exception {
    int port = freePort();
    Path folder = Files.createTempDirectory("raindrop-bench-");
    Files.writeString(
        folder.resolve("raindrop.toml"),
        String.format(
            Locale.ROOT,
            """
            [http]
            listen = "127.0.0.1:%d"
            [store]
            url = "sqlite://%s/raindrop.db"
            [worker]
            holder = "java-bench"
            """,
            port,
            folder));
    Process service =
        new ProcessBuilder(
                arguments[0], "serve", "--config", folder.resolve("raindrop.toml").toString())
            .directory(folder.toFile())
            .redirectErrorStream(true)
            .redirectOutput(folder.resolve("log").toFile())
            .start();
    try {
      String url = "http://127.0.0.1:" + port;
      awaitReady(url, service, folder);
      System.out.println(
          "| wanted IDs/s | `maxRange` | drawn IDs/s | requests/s | IDs a request | waits/s |"
              + " failed |");
      System.out.println("|--:|--:|--:|--:|--:|--:|--:|");
      use(url, 10_000, 100_000);
      use(url, 1_000_000, 100_000);
      use(url, 1_000_000, 1_000_000);
    } finally {
      service.destroy();
      service.waitFor();
      try (var files = Files.walk(folder)) {
        files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
      }
    }
  }

  /** Draws {@code rate} IDs a second, and prints what was counted after the warm-up. */
  private static void use(String url, int rate, int maxRange) {
    Counts counts = new Counts();
    RaindropClient.Builder settings =
        RaindropClient.builder().url(url).maxRange(maxRange).metrics(counts);
    try (RaindropClient client = settings.deadline(Duration.ofSeconds(20)).build()) {
      Code order = client.code("order");
      long start = System.nanoTime();
      long drawn = 0;
      long drawnBefore = 0;
      long begun = 0;
      for (double elapsed = 0;
          elapsed < WARM_UP + SECONDS;
          elapsed = (System.nanoTime() - start) / 1e9) {
        if (begun == 0 && elapsed >= WARM_UP) {
          begun = System.nanoTime();
          drawnBefore = drawn;
          counts.reset();
        }
        for (; drawn < rate * elapsed; drawn++) {
          order.next();
        }
        LockSupport.parkNanos(1_000_000);
      }
      double seconds = (System.nanoTime() - begun) / 1e9;
      long requests = counts.requests.sum();
      System.out.printf(
          Locale.ROOT,
          "| %d | %d | %.0f | %.2f | %.0f | %.2f | %d |%n",
          rate,
          maxRange,
          (drawn - drawnBefore) / seconds,
          requests / seconds,
          (double) counts.fetched.sum() / requests,
          counts.waits.sum() / seconds,
          counts.failed.sum());
    }
  }

  private static final class Counts implements RaindropMetrics {
    final LongAdder requests = new LongAdder();
    final LongAdder fetched = new LongAdder();
    final LongAdder failed = new LongAdder();
    final LongAdder waits = new LongAdder();

    @Override
    public void requestFinished(Request request, long ids) {
      requests.increment();
      fetched.add(ids);
    }

    @Override
    public void requestFailed(Request request, RaindropException error) {
      requests.increment();
      failed.increment();
    }

    @Override
    public void waited(String code, Duration duration, RaindropException error) {
      waits.increment();
    }

    void reset() {
      requests.reset();
      fetched.reset();
      failed.reset();
      waits.reset();
    }
  }

  private static int freePort() throws IOException {
    try (ServerSocket socket = new ServerSocket(0)) {
      return socket.getLocalPort();
    }
  }

  private static void awaitReady(String url, Process service, Path folder) throws Exception {
    HttpRequest request = HttpRequest.newBuilder(URI.create(url + "/readyz")).build();
    HttpClient http = HttpClient.newHttpClient();
    long ends = System.nanoTime() + 60_000_000_000L;
    while (true) {
      try {
        if (http.send(request, BodyHandlers.discarding()).statusCode() == 200) {
          return;
        }
      } catch (IOException notYet) {
        // It does not listen yet.
      }
      if (!service.isAlive() || System.nanoTime() > ends) {
        throw new IllegalStateException(
            "the service is not ready: " + Files.readString(folder.resolve("log")));
      }
      Thread.sleep(50);
    }
  }
}
