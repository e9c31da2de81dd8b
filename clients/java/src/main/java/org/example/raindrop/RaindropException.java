package org.example.raindrop;

import java.time.Duration;
import java.util.Optional;
import java.util.Set;

/** Says why a call got no ID. The class is {@link Problem} if the kind is {@link Kind#PROBLEM}. */
public class RaindropException extends RuntimeException {
  /**
   * What went wrong.
   *
   * <dl>
   *   <dt>PROBLEM
   *   <dd>the service answered with a problem document
   *   <dt>INVALID_ANSWER
   *   <dd>the answer failed the check, so none of its IDs are used
   *   <dt>TRANSPORT
   *   <dd>no whole answer came in time: the connection failed, the request timed out, a proxy
   *       answered, or the token supplier failed
   *   <dt>DEADLINE
   *   <dd>the caller's time is over
   *   <dt>CANCELLED
   *   <dd>the calling thread was interrupted while it waited; its interrupt flag is set again
   *   <dt>CLOSED
   *   <dd>the client is closed
   *   <dt>USAGE
   *   <dd>an argument or a setting is wrong, or the metrics hook threw an exception
   * </dl>
   */
  public enum Kind {
    PROBLEM,
    INVALID_ANSWER,
    TRANSPORT,
    DEADLINE,
    CANCELLED,
    CLOSED,
    USAGE
  }

  private final Kind kind;
  private final int status;
  private final Duration retryAfter;

  RaindropException(Kind kind, String message) {
    this(kind, message, null);
  }

  RaindropException(Kind kind, String message, Throwable cause) {
    this(kind, message, 0, null, cause);
  }

  RaindropException(Kind kind, String message, int status, Duration retryAfter, Throwable cause) {
    super(message, cause);
    this.kind = kind;
    this.status = status;
    this.retryAfter = retryAfter;
  }

  /** Returns what went wrong. */
  public Kind kind() {
    return kind;
  }

  /** Returns the HTTP status of the answer if that was not 200; 0 if there is no such answer. */
  public int status() {
    return status;
  }

  /**
   * Returns how long the answer asked to wait, as far as the client follows it: at most the larger
   * of 60 s and {@code maxAge}. Empty if it named no time.
   */
  public Optional<Duration> retryAfter() {
    return Optional.ofNullable(retryAfter);
  }

  /** Returns whether every node would answer so, now and later. */
  boolean isCertain() {
    return switch (kind) {
      case CLOSED, USAGE -> true;
      // The others are of one node, or of one moment.
      case PROBLEM -> status / 100 == 4 && !Set.of(401, 408, 425, 429).contains(status);
      default -> false;
    };
  }

  /**
   * Returns the same error for another caller: with that caller's stack trace, and this one as its
   * cause.
   */
  RaindropException again() {
    return new RaindropException(kind, getMessage(), status, retryAfter, this);
  }

  /** The service answered with a problem document. */
  public static final class Problem extends RaindropException {
    private final String code;
    private final String detail;

    Problem(int status, String code, String detail, Duration retryAfter, Throwable cause) {
      super(Kind.PROBLEM, status + " " + code + ": " + detail, status, retryAfter, cause);
      this.code = code;
      this.detail = detail;
    }

    /** Returns the problem's code, for programs: {@code lease_unavailable} for example. */
    public String code() {
      return code;
    }

    /** Returns what happened, for people. */
    public String detail() {
      return detail;
    }

    @Override
    RaindropException again() {
      return new Problem(status(), code, detail, retryAfter().orElse(null), this);
    }
  }
}
