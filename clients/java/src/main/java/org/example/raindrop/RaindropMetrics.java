package org.example.raindrop;

import java.time.Duration;

/**
 * Receives what a client does, for counters. The client calls it from callers' threads and from its
 * own, partly while it holds a lock, so the methods must return quickly and must not call the
 * client. They should not throw: an exception of {@link #requestFinished} makes the request fail,
 * and the others are logged.
 */
public interface RaindropMetrics {
  /** Counts a request whose answer brought {@code ids} IDs. */
  default void requestFinished(String code, Duration duration, long ids) {}

  /**
   * Counts a request that failed. A refill that fails over to another base URL makes several
   * requests.
   */
  default void requestFailed(String code, Duration duration, RaindropException error) {}

  /**
   * Counts IDs that were fetched and will never be returned: too old, or left over by a failed
   * call.
   */
  default void idsDropped(String code, long ids) {}

  /**
   * Counts a call that waited because the buffer was empty, whether it then got its IDs or an
   * error.
   */
  default void waited(String code, Duration duration) {}
}
