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

  /** The requests that have ended, in their order. */
  public final List<Request> ended = new CopyOnWriteArrayList<>();

  /** The errors of the failed requests. */
  public final List<RaindropException> errors = new CopyOnWriteArrayList<>();

  /** The errors of the calls that waited and failed. */
  public final List<RaindropException> failedWaits = new CopyOnWriteArrayList<>();

  @Override
  public void requestFinished(Request request, long ids) {
    requests.incrementAndGet();
    ended.add(request);
    idsFetched.addAndGet(ids);
  }

  @Override
  public void requestFailed(Request request, RaindropException error) {
    requests.incrementAndGet();
    ended.add(request);
    failedRequests.incrementAndGet();
    errors.add(error);
  }

  @Override
  public void idsDropped(String code, long ids) {
    idsDropped.addAndGet(ids);
  }

  @Override
  public void waited(String code, Duration duration, RaindropException error) {
    waits.incrementAndGet();
    if (error != null) failedWaits.add(error);
  }
}
