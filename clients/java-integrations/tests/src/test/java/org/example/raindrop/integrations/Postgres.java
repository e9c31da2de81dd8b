package org.example.raindrop.integrations;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/** A private server of PostgreSQL, of which Debian's package brings the programs. */
final class Postgres implements AutoCloseable {
  private final Path folder = Files.createTempDirectory("raindrop-postgres-");
  private final int port;
  private final Process process;

  Postgres() throws Exception {
    try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      port = free.getLocalPort();
    }
    boolean isRoot = System.getProperty("user.name").equals("root");
    if (isRoot) {
      Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxrwxrwx"));
    }
    // As root, the server refuses to run.
    List<String> user = isRoot ? List.of("runuser", "-u", "postgres", "--") : List.of();
    String data = folder + "/data";
    String initdb = "initdb -U postgres -A trust -N -E UTF8 -D " + data;
    if (run(user, initdb).waitFor() != 0) throw failed();
    process = run(user, "postgres -h 127.0.0.1 -k . -c fsync=off -p " + port + " -D " + data);
    Runtime.getRuntime().addShutdownHook(new Thread(process::destroy)); // Where a test ends early.
    awaitLogin();
  }

  String url() {
    return "jdbc:postgresql://127.0.0.1:" + port + "/postgres?user=postgres";
  }

  /** Starts a program of the newest PostgreSQL. */
  private Process run(List<String> user, String command) throws IOException {
    List<String> words = new ArrayList<>(user);
    try (Stream<Path> versions = Files.list(Path.of("/usr/lib/postgresql"))) {
      Path newest =
          versions
              .max(Comparator.comparing(path -> Integer.valueOf(path.getFileName().toString())))
              .orElseThrow();
      words.addAll(List.of((newest + "/bin/" + command).split(" ")));
    }
    return new ProcessBuilder(words)
        .directory(folder.toFile())
        .redirectErrorStream(true)
        .redirectOutput(ProcessBuilder.Redirect.appendTo(folder.resolve("log").toFile()))
        .start();
  }

  private IllegalStateException failed() throws IOException {
    return new IllegalStateException(Files.readString(folder.resolve("log")));
  }

  private void awaitLogin() throws Exception {
    for (int i = 0; i < 1200 && process.isAlive(); i++) {
      try {
        DriverManager.getConnection(url()).close();
        return;
      } catch (SQLException e) {
        Thread.sleep(50); // The server does not listen yet.
      }
    }
    throw failed();
  }

  @Override
  public void close() throws IOException {
    process.destroy();
    process.onExit().join();
    try (Stream<Path> files = Files.walk(folder)) {
      for (Path file : files.sorted(Comparator.reverseOrder()).toList()) Files.delete(file);
    }
  }
}
