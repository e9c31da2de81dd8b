package org.example.raindrop;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;

/** Counts what a client reports. */
public final class CountingMetrics implements RaindropMetrics {
  public final AtomicLong requests = new AtomicLong();
  public final AtomicLong failedRequests = new AtomicLong();
  public final AtomicLong idsFetched = new AtomicLong();
  public final AtomicLong idsDropped = new AtomicLong();
  public final AtomicLong waits = new AtomicLong();

  /** The errors of the failed requests. */
  public final List<RaindropException> errors = new CopyOnWriteArrayList<>();

  @Override
  public void requestFinished(String code, Duration duration, long ids) {
    requests.incrementAndGet();
    idsFetched.addAndGet(ids);
  }

  @Override
  public void requestFailed(String code, Duration duration, RaindropException error) {
    requests.incrementAndGet();
    failedRequests.incrementAndGet();
    errors.add(error);
  }

  @Override
  public void idsDropped(String code, long ids) {
    idsDropped.addAndGet(ids);
  }

  @Override
  public void waited(String code, Duration duration) {
    waits.incrementAndGet();
  }
}
