package org.example.raindrop.spring;

import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;
import org.example.raindrop.RaindropException;
import org.example.raindrop.RaindropMetrics;

/**
 * Passes on what a client does to several hooks, because a client has one. What a hook throws is
 * logged.
 */
record AllMetrics(List<RaindropMetrics> hooks) implements RaindropMetrics {
  @Override
  public void requestFinished(Request request, long ids) {
    report(hook -> hook.requestFinished(request, ids));
  }

  @Override
  public void requestFailed(Request request, RaindropException error) {
    report(hook -> hook.requestFailed(request, error));
  }

  @Override
  public void idsDropped(String code, long ids) {
    report(hook -> hook.idsDropped(code, ids));
  }

  @Override
  public void waited(String code, Duration duration, RaindropException error) {
    report(hook -> hook.waited(code, duration, error));
  }

  /** A hook that fails must not cost an ID, or keep an event from the others. */
  private void report(Consumer<RaindropMetrics> event) {
    for (RaindropMetrics hook : hooks) {
      try {
        event.accept(hook);
      } catch (Throwable e) {
        System.getLogger("org.example.raindrop")
            .log(System.Logger.Level.WARNING, "metrics hook failed", e);
      }
    }
  }
}
