package org.example.raindrop;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpHeaders;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.example.raindrop.RaindropException.Kind;

/**
 * Fetches IDs of one code once: from the base URL that answered last, or else from the others in
 * turn. Skips those that asked not to be asked yet.
 */
final class Refill {
  private static final int MAX_BODY = 1 << 20;
  private static final String USER_AGENT = "raindrop-java/0.1.0";

  /** The longest Retry-After that counts, unless maxAge is longer. */
  private static final long LONGEST_RETRY_AFTER = 60 * RaindropClient.SECOND;

  /** When the back-off before this refill ends, as {@link System#nanoTime} has it. */
  final long startsAt;

  /**
   * When it may begin because calls wait; at most {@link #startsAt}. The code's lock protects it.
   */
  long waitersFrom;

  /** Why it failed; the code's lock protects it. */
  RaindropException error;

  private final RaindropClient client;
  private final Code code;
  private final int firstUrl;
  private long ask;

  /** The value of {@link #passedUrls} for which a request was repeated on a new connection. */
  private int repeatedAt = -1;

  /** How many base URLs failed or were skipped. */
  private int passedUrls;

  /** If this refill fails: the time before which none may follow. */
  private long earliestNext;

  private volatile Future<?> response = CompletableFuture.completedFuture(null);

  Refill(RaindropClient client, Code code, long startsAt) {
    this.client = client;
    this.code = code;
    this.startsAt = startsAt;
    waitersFrom = startsAt;
    earliestNext = startsAt;
    firstUrl = client.preferredUrl;
  }

  void start(long ids) {
    ask = ids;
    if (!findUrl()) passUntilSoonest(); // Calls wait, or a clock was rounded.
    client.schedule(this::send, 0);
  }

  /** Returns whether it is more than a plan for the time after a back-off. */
  boolean isStarted() {
    return ask > 0;
  }

  /** Goes to the base URL that may be asked first. */
  private void passUntilSoonest() {
    int soonest = 0;
    for (int i = 1; i < code.notBefore.length; i++) {
      if (code.notBefore[i] - code.notBefore[soonest] < 0) soonest = i;
    }
    for (passedUrls = 0; url() != soonest; ) passedUrls++;
  }

  void cancel() {
    response.cancel(true);
  }

  private int url() {
    return (firstUrl + passedUrls) % client.settings.urls.size();
  }

  /** Skips base URLs that must not be asked yet, and returns whether one is left. */
  private boolean findUrl() {
    long now = System.nanoTime();
    while (passedUrls < code.notBefore.length && code.notBefore[url()] - now > 0) passedUrls++;
    return passedUrls < code.notBefore.length;
  }

  /**
   * Gets the token and sends a request. Whatever happens, the code gets either an answer or an
   * error in the end.
   */
  private void send() {
    long began = System.nanoTime();
    CompletableFuture<String> token = client.bearerToken();
    response = token;
    Future<?> timeout =
        client.schedule(
            () ->
                token.completeExceptionally(
                    RaindropClient.noToken(new TimeoutException("timed out"))),
            client.requestTimeout);
    if (client.closed) cancel();
    token.whenComplete(
        (text, failure) -> {
          timeout.cancel(false);
          if (failure == null) {
            send(text, began);
          } else {
            finish(null, new ByteArrayOutputStream(), failure, began, began);
          }
        });
  }

  private void send(String token, long began) {
    // Before the request leaves: an ID is never older than its age says.
    long sent = client.clock();
    ByteArrayOutputStream body = new ByteArrayOutputStream();
    AtomicBoolean isAnswered = new AtomicBoolean();
    try {
      CompletableFuture<HttpResponse<Void>> future =
          client.http.sendAsync(
              request(token),
              head -> {
                isAnswered.set(true);
                return HttpResponse.BodySubscribers.ofByteArrayConsumer(
                    part -> part.ifPresent(bytes -> append(bytes, body)));
              });
      response = future;
      // HttpRequest.timeout ends with the head of the answer, so it would not bound a body that
      // stalls.
      long left = began + client.requestTimeout - System.nanoTime();
      Future<?> timeout = client.schedule(() -> future.cancel(true), left);
      if (client.closed) cancel();
      future.whenComplete(
          (head, failure) -> {
            timeout.cancel(false);
            if (!isAnswered.get()
                && isDropped(failure)
                && repeatedAt != passedUrls
                && !client.closed) {
              // A kept connection had ended; a new one may be well. IDs that were issued are a gap.
              repeatedAt = passedUrls;
              client.schedule(this::send, 0);
              return;
            }
            // Whatever it is: the JDK also throws exceptions of its parsers at what is not HTTP.
            finish(head, body, failure == null ? null : noAnswer(failure), began, sent);
          });
    } catch (Throwable e) {
      finish(null, body, e, began, sent);
    }
  }

  private HttpRequest request(String token) {
    String target = "/ids/" + code.name + "?format=range&up_to=" + ask + client.settings.namespace;
    HttpRequest.Builder request =
        HttpRequest.newBuilder(URI.create(client.settings.urls.get(url()) + target))
            .POST(HttpRequest.BodyPublishers.noBody())
            .header("Accept", "application/json")
            .header("User-Agent", USER_AGENT);
    if (token != null) request.header("Authorization", "Bearer " + token);
    return request.build();
  }

  private void append(byte[] bytes, ByteArrayOutputStream body) {
    if (body.size() <= MAX_BODY) body.writeBytes(bytes);
    if (body.size() > MAX_BODY) cancel();
  }

  private RaindropException noAnswer(Throwable failure) {
    String text = "no whole answer of " + client.settings.urls.get(url()) + " came: " + failure;
    return new RaindropException(Kind.TRANSPORT, text, failure);
  }

  /** Returns whether a connection ended that was established. */
  private static boolean isDropped(Throwable failure) {
    Throwable cause = failure instanceof CompletionException ? failure.getCause() : failure;
    return cause instanceof IOException
        && !(cause instanceof ConnectException)
        && !(cause instanceof HttpTimeoutException);
  }

  private void finish(
      HttpResponse<Void> head, ByteArrayOutputStream body, Throwable error, long began, long sent) {
    Duration duration = Duration.ofNanos(System.nanoTime() - began);
    RaindropMetrics.Request request =
        new RaindropMetrics.Request(code.name, client.settings.urls.get(url()), duration, ask);
    Answer answer;
    try {
      answer = answer(head, body, error, sent);
      report(request, answer.ids());
    } catch (RaindropException e) {
      failed(request, client.closed ? RaindropClient.closedError() : e);
      return;
    }
    client.preferredUrl = url();
    code.refilled(answer);
  }

  /** Tells the hook that a request has succeeded. An exception of the hook fails the request. */
  private void report(RaindropMetrics.Request request, long ids) {
    try {
      client.settings.metrics.requestFinished(request, ids);
    } catch (Throwable e) {
      throw new RaindropException(Kind.USAGE, "the metrics hook failed: " + e, e);
    }
  }

  private void failed(RaindropMetrics.Request request, RaindropException failure) {
    client.report(hook -> hook.requestFailed(request, failure));
    if (!client.closed && triesAgain(failure)) {
      client.schedule(this::send, 0);
    } else {
      code.failed(this, failure, earliestNext);
    }
  }

  /** Returns whether to send another request at once: for fewer IDs, or to the next base URL. */
  private boolean triesAgain(RaindropException failure) {
    if (failure instanceof RaindropException.Problem problem
        && problem.code().equals("invalid_count")
        && ask > 1) {
      ask /= 2; // A layout may allow less than maxRange.
      code.serviceLimit = ask;
      return true;
    }
    long wait = failure.retryAfter().map(RaindropClient::nanos).orElse(0L);
    earliestNext = System.nanoTime() + wait + ThreadLocalRandom.current().nextLong(wait / 10 + 1);
    code.notBefore[url()] = earliestNext;
    if (failure.isCertain()) return false; // Another URL would not answer otherwise, nor sooner.
    passedUrls++;
    if (findUrl()) return true;
    for (long time : code.notBefore) if (time - earliestNext < 0) earliestNext = time;
    return false;
  }

  private static String mediaType(HttpHeaders headers) {
    return headers.firstValue("Content-Type").orElse("").split(";", 2)[0].strip();
  }

  /** Returns how long an answer asks to wait, but at most the larger of a minute and maxAge. */
  private Duration retryAfter(HttpHeaders headers) {
    String text = headers.firstValue("Retry-After").orElse("");
    if (!text.matches("[0-9]+")) return null;
    long longest = Math.max(LONGEST_RETRY_AFTER, client.settings.maxAge);
    long seconds = text.length() > 9 ? Integer.MAX_VALUE : Long.parseLong(text);
    return Duration.ofNanos(Math.min(seconds * RaindropClient.SECOND, longest));
  }

  /** Returns the answer of a request, checked, or throws why it cannot be used. */
  private Answer answer(
      HttpResponse<Void> head, ByteArrayOutputStream body, Throwable error, long sent) {
    try {
      if (body.size() > MAX_BODY)
        throw new RaindropException(Kind.INVALID_ANSWER, "the answer is larger than 1 MiB");
      if (error != null) throw error;
      String type = mediaType(head.headers());
      if (head.statusCode() != 200) throw problem(head, type, body.toByteArray());
      if (!type.equalsIgnoreCase("application/json"))
        throw new RaindropException(
            Kind.INVALID_ANSWER, "the answer has the type \"" + type + "\"");
      Answer answer = Answer.parse(body.toByteArray(), ask, sent, client.settings.maxAge);
      if (code.isRepeated(answer))
        throw new RaindropException(Kind.INVALID_ANSWER, "an earlier answer was repeated");
      if (!answer.ranges().get(0).isFresh(client))
        throw new RaindropException(Kind.TRANSPORT, "the answer came when its IDs were too old");
      return answer;
    } catch (RaindropException e) {
      throw e;
    } catch (Throwable e) {
      // Whatever it is, another base URL may do better.
      throw noAnswer(e);
    }
  }

  /** Returns the error of an answer whose status is not 200. */
  private RaindropException problem(HttpResponse<Void> head, String type, byte[] body) {
    int status = head.statusCode();
    Duration wait = retryAfter(head.headers());
    try {
      Answer.require(
          type.equalsIgnoreCase("application/problem+json"), "the type is \"" + type + "\"");
      Map<?, ?> fields = (Map<?, ?>) Json.parse(body);
      String detail =
          fields.containsKey("detail") ? Answer.field(fields, "detail", String.class) : "";
      return new RaindropException.Problem(
          status, Answer.field(fields, "code", String.class), detail, wait, null);
    } catch (RuntimeException e) {
      return new RaindropException(
          Kind.TRANSPORT,
          "status " + status + " without a problem document: " + e.getMessage(),
          status,
          wait,
          e);
    }
  }
}
