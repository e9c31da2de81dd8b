package org.example.raindrop.integrations;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;

/** The real service, with a store of its own. RAINDROP names its binary. */
final class Service implements AutoCloseable {
  static final Path BINARY =
      Path.of(System.getenv().getOrDefault("RAINDROP", "../../../../target/debug/raindrop"))
          .toAbsolutePath();

  private final Path folder = Files.createTempDirectory("raindrop-java-");
  final int port;
  private Process process;

  Service() throws Exception {
    try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      port = free.getLocalPort();
    }
    Files.writeString(
        folder.resolve("raindrop.toml"),
        """
        [http]
        listen = "127.0.0.1:%d"

        [store]
        url = "sqlite://%s/raindrop.db"

        [worker]
        holder = "java-integrations"

        [[code]]
        name = "parcel"
        prefix = "PCL-"
        """
            .formatted(port, folder));
    start();
  }

  String url() {
    return "http://127.0.0.1:" + port;
  }

  void start() throws Exception {
    ProcessBuilder builder =
        new ProcessBuilder(BINARY.toString(), "serve", "--config", folder + "/raindrop.toml")
            .directory(folder.toFile())
            .redirectErrorStream(true)
            .redirectOutput(folder.resolve("log").toFile());
    builder.environment().keySet().removeIf(name -> name.startsWith("RAINDROP_"));
    process = builder.start();
    Runtime.getRuntime()
        .addShutdownHook(new Thread(process::destroyForcibly)); // Where a test ends early.
    HttpRequest ready = HttpRequest.newBuilder(URI.create(url() + "/readyz")).build();
    for (int i = 0; i < 1200; i++) {
      try {
        if (HttpClient.newHttpClient()
                .send(ready, HttpResponse.BodyHandlers.discarding())
                .statusCode()
            == 200) {
          return;
        }
      } catch (IOException e) {
        // It does not listen yet.
      }
      if (!process.isAlive()) {
        break;
      }
      Thread.sleep(50);
    }
    throw new IllegalStateException(
        "the service is not ready: " + Files.readString(folder.resolve("log")));
  }

  /** Ends the process as a power failure would. */
  void stop() {
    process.destroyForcibly().onExit().join();
  }

  @Override
  public void close() throws IOException {
    stop();
    try (var files = Files.list(folder)) {
      for (Path file : files.toList()) {
        Files.delete(file);
      }
    }
    Files.delete(folder);
  }
}
