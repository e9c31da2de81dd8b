package org.example.raindrop.spring;

import io.micrometer.core.instrument.MeterRegistry;
import java.time.Duration;
import java.util.Locale;
import org.example.raindrop.RaindropException;
import org.example.raindrop.RaindropMetrics;

/** Counts what the client does in meters of Micrometer. */
final class Meters implements RaindropMetrics {
  private final MeterRegistry registry;

  Meters(MeterRegistry registry) {
    this.registry = registry;
  }

  @Override
  public void requestFinished(Request request, long ids) {
    count(request, "success");
    registry.counter("raindrop.ids.fetched", "code", request.code()).increment(ids);
  }

  @Override
  public void requestFailed(Request request, RaindropException error) {
    String outcome =
        error instanceof RaindropException.Problem problem
            ? problem.code()
            : error.kind().name().toLowerCase(Locale.ROOT);
    count(request, outcome);
  }

  @Override
  public void idsDropped(String code, long ids) {
    registry.counter("raindrop.ids.dropped", "code", code).increment(ids);
  }

  @Override
  public void waited(String code, Duration duration, RaindropException error) {
    registry.timer("raindrop.waits", "code", code).record(duration);
  }

  private void count(Request request, String outcome) {
    registry
        .timer("raindrop.requests", "code", request.code(), "outcome", outcome)
        .record(request.duration());
  }
}
