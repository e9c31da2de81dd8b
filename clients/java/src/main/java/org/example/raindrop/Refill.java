package org.example.raindrop;

import java.io.ByteArrayOutputStream;
import java.net.URI;
import java.net.http.*;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.*;
import org.example.raindrop.RaindropException.Kind;

/**
 * Fetches IDs of one code once: from the base URL that answered last, or else from the others in turn. Skips those
 * that asked not to be asked yet.
 */
final class Refill {
  private static final int MAX_BODY = 1 << 20;

  /** When the back-off before this refill ends, as {@link System#nanoTime} has it. */
  final long startsAt;
  /** Why it failed; the code's lock protects it. */
  RaindropException error;

  private final RaindropClient client;
  private final Code code;
  private final int firstUrl;
  private long ask;
  /** How many base URLs failed or were skipped. */
  private int passedUrls;
  /** If this refill fails: the time before which none may follow. */
  private long earliestNext;
  private volatile Future<?> response = CompletableFuture.completedFuture(null);

  Refill(RaindropClient client, Code code, long startsAt) {
    this.client = client;
    this.code = code;
    this.startsAt = startsAt;
    earliestNext = startsAt;
    firstUrl = client.preferredUrl;
  }

  void start(long ids) {
    ask = ids;
    findUrl();
    client.schedule(this::send, 0);
  }

  void cancel() { response.cancel(true); }

  private int url() { return (firstUrl + passedUrls) % client.settings.urls.size(); }

  /** Skips base URLs that must not be asked yet, and returns whether one is left. */
  private boolean findUrl() {
    long now = System.nanoTime();
    while (passedUrls < code.notBefore.length && code.notBefore[url()] - now > 0) passedUrls++;
    return passedUrls < code.notBefore.length;
  }

  /** Sends a request. Whatever happens, the code gets either an answer or an error in the end. */
  private void send() {
    long began = System.nanoTime();
    long sent = client.clock(); // Before the request leaves: an ID is never older than its age says.
    ByteArrayOutputStream body = new ByteArrayOutputStream();
    try {
      HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(client.settings.urls.get(url()) + "/ids/"
          + code.name + "?format=range&up_to=" + ask + client.settings.namespace))
          .POST(HttpRequest.BodyPublishers.noBody()).header("Accept", "application/json");
      String token = client.bearerToken();
      if (token != null) request.header("Authorization", "Bearer " + token);
      CompletableFuture<HttpResponse<Void>> future = client.http.sendAsync(request.build(),
          HttpResponse.BodyHandlers.ofByteArrayConsumer(part -> part.ifPresent(bytes -> {
            if (body.size() <= MAX_BODY) body.writeBytes(bytes);
            if (body.size() > MAX_BODY) cancel();
          })));
      response = future;
      // HttpRequest.timeout ends with the head of the answer, so it would not bound a body that stalls.
      Future<?> timeout = client.schedule(() -> future.cancel(true), client.settings.requestTimeout);
      if (client.closed) cancel();
      future.whenComplete((head, failure) -> {
        timeout.cancel(false);
        // Whatever it is: the JDK also throws exceptions of its parsers at what is not HTTP.
        finish(head, body, failure == null ? null : new RaindropException(Kind.TRANSPORT, "no whole answer of "
            + client.settings.urls.get(url()) + " came: " + failure, failure), began, sent);
      });
    } catch (Throwable e) {
      finish(null, body, e, began, sent);
    }
  }

  private void finish(HttpResponse<Void> head, ByteArrayOutputStream body, Throwable error, long began, long sent) {
    Duration duration = Duration.ofNanos(System.nanoTime() - began);
    try {
      if (body.size() > MAX_BODY) throw new RaindropException(Kind.INVALID_ANSWER, "the answer is larger than 1 MiB");
      if (error != null) throw error;
      Answer answer = answer(head, body.toByteArray(), sent);
      if (code.isRepeated(answer)) throw new RaindropException(Kind.INVALID_ANSWER, "an earlier answer was repeated");
      boolean fresh = answer.ranges().get(0).isFresh(client);
      if (!fresh) throw new RaindropException(Kind.TRANSPORT, "the answer came when its IDs were too old");
      client.settings.metrics.requestFinished(code.name, duration, answer.ids());
      client.preferredUrl = url();
      code.refilled(answer);
    } catch (Throwable e) {
      RaindropException failure = client.closed ? RaindropClient.closedError()
          : e instanceof RaindropException known ? known
          : new RaindropException(Kind.USAGE, "the refill died: " + e, e);
      client.report(hook -> hook.requestFailed(code.name, duration, failure));
      if (!client.closed && triesAgain(failure)) {
        client.schedule(this::send, 0);
      } else {
        code.failed(this, failure, earliestNext);
      }
    }
  }

  /** Returns whether to send another request at once: for fewer IDs, or to the next base URL. */
  private boolean triesAgain(RaindropException failure) {
    if (failure instanceof RaindropException.Problem problem && problem.code().equals("invalid_count") && ask > 1) {
      code.serviceLimit = ask /= 2; // A layout may allow less than maxRange.
      return true;
    }
    long wait = failure.retryAfter().map(RaindropClient::nanos).orElse(0L);
    earliestNext = System.nanoTime() + wait + ThreadLocalRandom.current().nextLong(wait / 10 + 1);
    code.notBefore[url()] = earliestNext;
    boolean failsOver = failure.kind() == Kind.TRANSPORT || failure.status() >= 502 && failure.status() <= 504;
    if (!failsOver) return false; // Another URL would not answer otherwise, nor sooner.
    passedUrls++;
    if (findUrl()) return true;
    for (long time : code.notBefore) if (time - earliestNext < 0) earliestNext = time;
    return false;
  }

  private Answer answer(HttpResponse<Void> head, byte[] body, long sent) {
    String type = head.headers().firstValue("Content-Type").orElse("").split(";")[0].strip();
    if (head.statusCode() != 200) throw problem(head, type, body);
    if (type.equalsIgnoreCase("application/json")) return Answer.parse(body, ask, sent, client.settings.maxAge);
    throw new RaindropException(Kind.INVALID_ANSWER, "the answer has the type \"" + type + "\"");
  }

  /** Returns the error of an answer whose status is not 200. */
  private static RaindropException problem(HttpResponse<Void> head, String type, byte[] body) {
    int status = head.statusCode();
    Duration wait = head.headers().firstValue("Retry-After").filter(text -> text.matches("[0-9]{1,9}"))
        .map(Long::valueOf).map(Duration::ofSeconds).orElse(null);
    try {
      Answer.require(type.equalsIgnoreCase("application/problem+json"), "the type is \"" + type + "\"");
      Map<?, ?> fields = (Map<?, ?>) Json.parse(body);
      String detail = fields.containsKey("detail") ? Answer.field(fields, "detail", String.class) : "";
      return new RaindropException.Problem(status, Answer.field(fields, "code", String.class), detail, wait, null);
    } catch (RuntimeException e) {
      return new RaindropException(Kind.TRANSPORT,
          "status " + status + " without a problem document: " + e.getMessage(), status, wait, e);
    }
  }
}
