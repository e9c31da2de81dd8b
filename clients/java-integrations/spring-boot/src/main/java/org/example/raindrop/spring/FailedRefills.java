package org.example.raindrop.spring;

import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.example.raindrop.RaindropClient;
import org.example.raindrop.RaindropException;
import org.example.raindrop.RaindropMetrics;

/** Remembers the codes whose last refill failed, for the health of the application. */
final class FailedRefills implements RaindropMetrics {
  private final Map<String, RaindropException> errors = new ConcurrentHashMap<>();

  @Override
  public void requestFinished(Request request, long ids) {
    errors.remove(request.code());
  }

  @Override
  public void requestFailed(Request request, RaindropException error) {
    errors.put(request.code(), error);
  }

  /**
   * Returns why the last refill failed, by code, and lets the client try again: while nobody draws,
   * it would not, and an application that gets no requests because it is not healthy would never
   * recover.
   */
  Map<String, String> check(RaindropClient client) {
    Map<String, String> reasons = new TreeMap<>();
    errors.forEach(
        (code, error) -> {
          reasons.put(code, error.kind() + ": " + error.getMessage());
          try {
            client.code(code).tryNext();
          } catch (RaindropException e) {
            reasons.put(code, e.kind() + ": " + e.getMessage());
          }
        });
    return reasons;
  }
}
