package org.example.raindrop;

import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Function;

/** Answers requests for ranges over plain HTTP/1.1, as a test tells it to. */
final class FakeServer implements AutoCloseable {
  static final String TIME =
      "\"layout\":\"test\",\"time\":{\"epoch_ms\":1000,\"unit_ms\":10,\"shift\":22,\"bits\":41}";

  /** A request: its head, and how many IDs it asks for. */
  record Request(String head, long upTo) {}

  private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
  private final Set<Socket> connections = ConcurrentHashMap.newKeySet();
  private final CountDownLatch closed = new CountDownLatch(1);
  private final AtomicInteger inFlight = new AtomicInteger();
  private final AtomicLong nextId = new AtomicLong(1);
  final AtomicInteger mostInFlight = new AtomicInteger();
  final List<Request> requests = new CopyOnWriteArrayList<>();

  /**
   * Returns the whole response of a request, without a status line for an answer; null never
   * answers, and "DROP" ends the connection.
   */
  volatile Function<Request, String> handler = request -> ids(request.upTo);

  FakeServer() throws IOException {
    start(
        () -> {
          while (true) {
            Socket connection = listener.accept();
            connections.add(connection);
            // A thread in accept keeps the listener alive for a moment after it was closed.
            if (closed.getCount() == 0) {
              connection.close();
            }
            start(() -> serve(connection));
          }
        });
  }

  interface Task {
    void run() throws Exception;
  }

  private static void start(Task task) {
    Thread thread =
        new Thread(
            () -> {
              try {
                task.run();
              } catch (Exception e) {
                // The connection or the server was closed.
              }
            },
            "fake server");
    thread.setDaemon(true);
    thread.start();
  }

  String url() {
    return "http://127.0.0.1:" + listener.getLocalPort();
  }

  RaindropClient.Builder client() {
    return RaindropClient.builder().url(url());
  }

  /** Returns an answer with the next {@code count} IDs. */
  String ids(long count) {
    return answer(range(nextId.getAndAdd(count), 1, count));
  }

  static String range(long first, long step, long count) {
    return "{\"first\":\""
        + first
        + "\",\"last\":\""
        + (first + (count - 1) * step)
        + "\",\"step\":\""
        + step
        + "\",\"count\":"
        + count
        + "}";
  }

  static String answer(String ranges) {
    return "{\"issued_at\":\"2026-11-28T09:30:00.123Z\"," + TIME + ",\"ranges\":[" + ranges + "]}";
  }

  static String response(String status, String type, String more, String body) {
    return "HTTP/1.1 "
        + status
        + "\r\nContent-Type: "
        + type
        + "\r\n"
        + more
        + "Content-Length: "
        + body.getBytes(StandardCharsets.UTF_8).length
        + "\r\n\r\n"
        + body;
  }

  static String problem(int status, String code, String retryAfter) {
    return response(
        status + " Problem",
        "application/problem+json",
        retryAfter == null ? "" : "Retry-After: " + retryAfter + "\r\n",
        "{\"type\":\"urn:raindrop:problem:"
            + code
            + "\",\"title\":\"t\",\"status\":"
            + status
            + ",\"detail\":\"what happened\",\"code\":\""
            + code
            + "\"}");
  }

  private void serve(Socket connection) throws Exception {
    InputStream input = new BufferedInputStream(connection.getInputStream());
    while (true) {
      StringBuilder head = new StringBuilder();
      while (head.indexOf("\r\n\r\n") < 0) {
        int b = input.read();
        if (b < 0) {
          return;
        }
        head.append((char) b);
      }
      Request request =
          new Request(
              head.toString(),
              Long.parseLong(head.toString().replaceAll("(?s).*up_to=(\\d+).*", "$1")));
      mostInFlight.accumulateAndGet(inFlight.incrementAndGet(), Math::max);
      requests.add(request);
      String answer = handler.apply(request);
      inFlight.decrementAndGet();
      if (answer == null) {
        closed.await();
        return;
      }
      if (answer.equals("DROP")) {
        connection.close();
        return;
      }
      if (!answer.startsWith("HTTP/")) {
        answer = response("200 OK", "application/json", "", answer);
      }
      boolean cut = answer.endsWith("CUT");
      connection
          .getOutputStream()
          .write(answer.replaceAll("CUT$", "").getBytes(StandardCharsets.UTF_8));
      connection.getOutputStream().flush();
      if (cut) {
        connection.close();
        return;
      }
    }
  }

  @Override
  public void close() throws IOException {
    closed.countDown();
    listener.close();
    for (Socket connection : connections) {
      connection.close();
    }
  }
}
