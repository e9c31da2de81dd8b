package org.example.raindrop;

import java.time.Duration;

/**
 * Receives what a client does, for counters. The client calls it from callers' threads and from its
 * own, partly while it holds a lock, so the methods must return quickly and must not call the
 * client. They should not throw: an exception of {@link #requestFinished} makes the request fail,
 * and the others are logged.
 */
public interface RaindropMetrics {
  /**
   * A request to one base URL, which has ended.
   *
   * @param code the code of the IDs that it asked for
   * @param url the base URL
   * @param duration how long it took, with its token
   * @param upTo how many IDs it asked for
   */
  record Request(String code, String url, Duration duration, long upTo) {}

  /** Counts a request whose answer brought {@code ids} IDs. */
  default void requestFinished(Request request, long ids) {}

  /**
   * Counts a request that failed. A refill that fails over to another base URL makes several
   * requests.
   */
  default void requestFailed(Request request, RaindropException error) {}

  /**
   * Counts IDs that were fetched and will never be returned: too old, drawn by a call that failed,
   * of a layout from which the service has moved, or in the buffer of a client that was closed.
   */
  default void idsDropped(String code, long ids) {}

  /**
   * Counts a call that waited because the buffer had too few IDs.
   *
   * @param error what the call failed with; null if it got what it waited for
   */
  default void waited(String code, Duration duration, RaindropException error) {}
}
