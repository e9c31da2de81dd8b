package org.example.raindrop;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.example.raindrop.RaindropException.Kind;

/**
 * Hands out unique IDs from memory, and leases ranges of them from Raindrop ahead of demand. Make
 * one per process, share it between threads, and close it at the end. All errors are {@link
 * RaindropException}s.
 */
public final class RaindropClient implements AutoCloseable {
  static final long SECOND = 1_000_000_000;
  private static final long LOG_INTERVAL = 60 * SECOND;
  private static final String NO_TOKEN =
      "the token is missing or empty, or has characters that no token can have";
  private static final String CODE = "[A-Za-z0-9][A-Za-z0-9._:-]{0,63}";

  final Builder settings;
  final HttpClient http;

  /** How long a request may take, in nanoseconds. */
  final long requestTimeout;

  /** How long a buffer should last, in nanoseconds. */
  final long target;

  /** The index of the base URL that answered last. */
  volatile int preferredUrl;

  volatile boolean closed;

  private final ConcurrentHashMap<String, Code> codes = new ConcurrentHashMap<>();
  private final ScheduledThreadPoolExecutor scheduler =
      new ScheduledThreadPoolExecutor(
          1,
          task -> {
            Thread thread = new Thread(task, "raindrop-client");
            thread.setDaemon(true);
            return thread;
          },
          new ThreadPoolExecutor.DiscardPolicy()); // After close, nobody waits for a task.

  /** Runs the token supplier, which may block. */
  private final ExecutorService tokenThreads =
      new ThreadPoolExecutor(
          0,
          Integer.MAX_VALUE,
          10,
          TimeUnit.SECONDS,
          new SynchronousQueue<>(),
          task -> {
            Thread thread = new Thread(task, "raindrop-token");
            thread.setDaemon(true);
            return thread;
          },
          new ThreadPoolExecutor.DiscardPolicy());

  /** When a failed refill was logged last, as {@link System#nanoTime} has it. */
  private final AtomicLong loggedAt = new AtomicLong(System.nanoTime() - LOG_INTERVAL);

  private RaindropClient(Builder settings) {
    this.settings = settings;
    require(!settings.urls.isEmpty(), "url is missing");
    require(
        settings.minRange >= 1 && settings.minRange <= settings.maxRange,
        "minRange = "
            + settings.minRange
            + ": must be 1 to maxRange, which is "
            + settings.maxRange);
    http =
        settings.http != null
            ? settings.http
            : HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    require(
        http.followRedirects() == HttpClient.Redirect.NEVER,
        "httpClient follows redirects, and would send the token with them: build it with"
            + " Redirect.NEVER");
    target = Math.min(settings.target, settings.maxAge / 2);
    // With several base URLs, a call must have time for the next one.
    long most = settings.urls.size() > 1 ? Math.max(settings.deadline / 2, SECOND) : 5 * SECOND;
    requestTimeout =
        settings.requestTimeout > 0 ? settings.requestTimeout : Math.min(most, 5 * SECOND);
    scheduler.setRemoveOnCancelPolicy(true);
    long sweep = Math.max(settings.maxAge / 10, 10_000_000);
    scheduler.scheduleWithFixedDelay(
        () -> codes.values().forEach(Code::sweep), sweep, sweep, TimeUnit.NANOSECONDS);
  }

  /** Returns a builder; only the URL is required. */
  public static Builder builder() {
    return new Builder();
  }

  /** Returns the handle of a code, which matches {@code [A-Za-z0-9][A-Za-z0-9._:-]{0,63}}. */
  public Code code(String name) {
    Code code = codes.get(name);
    if (code != null) return code;
    require(name.matches(CODE), "code = \"" + name + "\": must match " + CODE);
    return codes.computeIfAbsent(name, missing -> new Code(this, missing));
  }

  /** Returns the next ID of the code; see {@link Code#next()}. */
  public long next(String code) {
    return code(code).next();
  }

  /** Returns {@code n} ascending IDs of the code; see {@link Code#nextMany(int)}. */
  public long[] nextMany(String code, int n) {
    return code(code).nextMany(n);
  }

  /** Returns the text of the code's next ID; see {@link Code#nextText()}. */
  public String nextText(String code) {
    return code(code).nextText();
  }

  /** Returns the code's next ID as a UUID; see {@link Code#nextUuid()}. */
  public UUID nextUuid(String code) {
    return code(code).nextUuid();
  }

  /** Waits until the code's buffer has an ID; see {@link Code#warmUp()}. */
  public void warmUp(String code) {
    code(code).warmUp();
  }

  /** Returns the time of an ID of the code; see {@link Code#timeOf}. */
  public Instant timeOf(String code, long id) {
    return code(code).timeOf(id);
  }

  /**
   * Ends the background work, drops the buffers, and fails waiting and later calls with kind {@code
   * CLOSED}.
   */
  @Override
  public void close() {
    closed = true;
    codes.values().forEach(Code::close);
    scheduler.shutdownNow();
    tokenThreads.shutdownNow();
    if (settings.http == null) shutDown(http);
  }

  /** Ends the threads and connections of an HTTP client where it can: from Java 21 on. */
  private static void shutDown(HttpClient http) {
    try {
      HttpClient.class.getMethod("shutdownNow").invoke(http);
    } catch (ReflectiveOperationException e) {
      // Java 17 ends them when nothing refers to the client any more.
    }
  }

  static RaindropException closedError() {
    return new RaindropException(Kind.CLOSED, "the client is closed");
  }

  /** Returns nanoseconds of a clock that does not step. */
  long clock() {
    return settings.clock == null ? System.nanoTime() : settings.clock.getAsLong();
  }

  /**
   * Returns the token of the next request, null for none. What the supplier throws, and what no
   * request can send, is an error of kind {@code TRANSPORT}. Errors never quote the token.
   */
  CompletableFuture<String> bearerToken() {
    CompletableFuture<String> result = new CompletableFuture<>();
    try {
      settings.token.get(tokenThreads, result);
    } catch (Throwable e) {
      result.completeExceptionally(noToken(e));
    }
    return result;
  }

  private static void complete(CompletableFuture<String> result, String token, Throwable failure) {
    if (failure == null && isToken(token)) {
      result.complete(token);
    } else {
      result.completeExceptionally(noToken(failure));
    }
  }

  /** Calls a supplier on a new thread. Interrupts that thread if the result is decided earlier. */
  private static void call(
      Supplier<String> token, ExecutorService threads, CompletableFuture<String> result) {
    AtomicBoolean isOver = new AtomicBoolean();
    Future<?> call =
        threads.submit(
            () -> {
              String text = null;
              Throwable failure = null;
              try {
                text = token.get();
              } catch (Throwable e) {
                failure = e;
              }
              isOver.set(true);
              complete(result, text, failure);
            });
    result.whenComplete(
        (text, failure) -> {
          if (!isOver.get()) call.cancel(true);
        });
  }

  static RaindropException noToken(Throwable failure) {
    Throwable cause = failure instanceof CompletionException ? failure.getCause() : failure;
    String reason = cause == null ? NO_TOKEN : "the token supplier failed: " + cause;
    return new RaindropException(Kind.TRANSPORT, reason, cause);
  }

  private static boolean isToken(String token) {
    return token != null && token.matches("[!-~]+");
  }

  private static void checkToken(String token) {
    require(isToken(token), NO_TOKEN);
  }

  /**
   * Calls the metrics hook. What it throws is logged, because it must not change what a call
   * returns.
   */
  void report(Consumer<RaindropMetrics> event) {
    try {
      event.accept(settings.metrics);
    } catch (Throwable e) {
      System.getLogger("org.example.raindrop")
          .log(System.Logger.Level.WARNING, "metrics hook failed", e);
    }
  }

  /** Logs the error of a refill, unless one was logged less than a minute ago. */
  void logFailure(String code, RaindropException error) {
    long now = System.nanoTime();
    long last = loggedAt.get();
    if (now - last >= LOG_INTERVAL && loggedAt.compareAndSet(last, now)) {
      System.getLogger("org.example.raindrop")
          .log(System.Logger.Level.WARNING, "refill of code {0} failed: {1}", code, error);
    }
  }

  Future<?> schedule(Runnable task, long delay) {
    return scheduler.schedule(task, delay, TimeUnit.NANOSECONDS);
  }

  /**
   * Returns the nanoseconds of a duration; more than 100 years count as 100 years, less than 0 as
   * 0.
   */
  static long nanos(Duration duration) {
    Duration most = Duration.ofDays(36_500);
    return duration.isNegative() ? 0 : (duration.compareTo(most) > 0 ? most : duration).toNanos();
  }

  static void require(boolean holds, String otherwise) {
    if (!holds) throw new RaindropException(Kind.USAGE, otherwise);
  }

  /** Completes a future with the token of a request, with null for none, or with why it failed. */
  @FunctionalInterface
  private interface TokenSource {
    void get(ExecutorService threads, CompletableFuture<String> result);
  }

  /** Collects the settings of a client. */
  public static final class Builder implements Cloneable {
    List<String> urls = List.of();
    private TokenSource token = (threads, result) -> result.complete(null);
    private HttpClient http;

    /** Empty, or a parameter of the request. */
    String namespace = "";

    int minRange = 1;
    int maxRange = 100_000;
    RaindropMetrics metrics = new RaindropMetrics() {};

    /** Null for {@link System#nanoTime}, which is then called directly. */
    private LongSupplier clock;

    // These are nanoseconds.
    private long target = 2_000_000_000L;
    long maxAge = 10_000_000_000L;
    long deadline = 2_000_000_000L;

    /** 0 for the default, which the base URLs and the deadline decide. */
    private long requestTimeout;

    private Builder() {}

    /**
     * Adds a base URL, {@code https://ids.example.org} for example. With several, the client fails
     * over.
     */
    public Builder url(String url) {
      require(
          url.matches("https?://[^/?#@\\s]+(/[^?#\\s]*)?"),
          "url: must be http:// or https:// with a host, and without user, query and fragment");
      try {
        HttpRequest.newBuilder(URI.create(url)); // Refuses now what it would refuse in each refill.
      } catch (IllegalArgumentException e) {
        throw new RaindropException(
            Kind.USAGE,
            "url = \""
                + url
                + "\": must have a host of letters, digits, '-' and '.', and no characters that a"
                + " URI cannot have",
            e);
      }
      urls = Stream.concat(urls.stream(), Stream.of(url.replaceAll("/+$", ""))).toList();
      return this;
    }

    /** Sets the token that every request sends. */
    public Builder token(String token) {
      checkToken(token);
      this.token = (threads, result) -> result.complete(token);
      return this;
    }

    /**
     * Sets where each request gets its token, so that tokens can rotate. The supplier runs on a
     * thread of its own, which is interrupted after {@code requestTimeout}.
     */
    public Builder token(Supplier<String> token) {
      this.token = (threads, result) -> call(token, threads, result);
      return this;
    }

    /** Sets where each request gets its token, as {@link #token(Supplier)}, without a thread. */
    public Builder tokenAsync(Supplier<? extends CompletionStage<String>> token) {
      this.token =
          (threads, result) ->
              token.get().whenComplete((text, failure) -> complete(result, text, failure));
      return this;
    }

    /** Sets the HTTP client, for TLS or a proxy of your own. It must not follow redirects. */
    public Builder httpClient(HttpClient http) {
      this.http = http;
      return this;
    }

    /** Sets the namespace of all codes; by default the service chooses. */
    public Builder namespace(String name) {
      namespace = "&namespace=" + URLEncoder.encode(name, UTF_8);
      return this;
    }

    /** Sets how long a buffer should last: 2 s by default, at most half of {@code maxAge}. */
    public Builder target(Duration target) {
      this.target = positive("target", target);
      return this;
    }

    /** Sets the fewest IDs that a request asks for: 1 by default. */
    public Builder minRange(int minRange) {
      this.minRange = minRange;
      return this;
    }

    /** Sets the most IDs that a request asks for: 100 000 by default. */
    public Builder maxRange(int maxRange) {
      this.maxRange = maxRange;
      return this;
    }

    /** Sets the age from which buffered IDs of a layout are dropped: 10 s by default. */
    public Builder maxAge(Duration maxAge) {
      this.maxAge = positive("maxAge", maxAge);
      return this;
    }

    /** Sets how long calls wait that name no time themselves: 2 s by default. */
    public Builder deadline(Duration deadline) {
      this.deadline = nanos(deadline);
      return this;
    }

    /**
     * Sets how long a request may take until its answer is read, with the token: 5 s by default.
     * With several base URLs, the default is half of {@code deadline}, but 1 s to 5 s.
     */
    public Builder requestTimeout(Duration time) {
      requestTimeout = positive("requestTimeout", time);
      return this;
    }

    /** Sets the hook that counts what the client does. */
    public Builder metrics(RaindropMetrics metrics) {
      this.metrics = metrics;
      return this;
    }

    /**
     * Sets the clock for the age of IDs and the rate of use, in nanoseconds, for tests. It must not
     * step.
     */
    public Builder clock(LongSupplier clock) {
      this.clock = clock;
      return this;
    }

    /** Returns a client. It sends nothing before the first call. */
    public RaindropClient build() {
      try {
        return new RaindropClient((Builder) clone()); // What is set later changes no client.
      } catch (CloneNotSupportedException e) {
        throw new AssertionError(e);
      }
    }

    private static long positive(String name, Duration duration) {
      require(nanos(duration) > 0, name + " = " + duration + ": must be longer than 0");
      return nanos(duration);
    }
  }
}
