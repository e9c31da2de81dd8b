package org.example.raindrop.spring;

import java.time.Duration;
import java.util.List;
import org.example.raindrop.RaindropException;
import org.example.raindrop.RaindropMetrics;

/** Passes on what a client does to several hooks, because a client has one. */
record AllMetrics(List<RaindropMetrics> hooks) implements RaindropMetrics {
  @Override
  public void requestFinished(String code, Duration duration, long ids) {
    hooks.forEach(hook -> hook.requestFinished(code, duration, ids));
  }

  @Override
  public void requestFailed(String code, Duration duration, RaindropException error) {
    hooks.forEach(hook -> hook.requestFailed(code, duration, error));
  }

  @Override
  public void idsDropped(String code, long ids) {
    hooks.forEach(hook -> hook.idsDropped(code, ids));
  }

  @Override
  public void waited(String code, Duration duration) {
    hooks.forEach(hook -> hook.waited(code, duration));
  }
}
