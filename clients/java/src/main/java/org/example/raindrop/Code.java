package org.example.raindrop;

import java.nio.ByteBuffer;
import java.security.SecureRandom;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Predicate;
import org.example.raindrop.RaindropException.Kind;

/**
 * The IDs of one code, with their buffer. A handle spares the look-up by name; get it from {@link
 * RaindropClient#code}, keep it as long as you like, and use it from any number of threads.
 */
public final class Code {
  private static final long MIN_BACKOFF = 100_000_000;
  private static final long MAX_BACKOFF = 10_000_000_000L;
  private static final int REMEMBERED = 1000;

  /** Reads random bytes of the operating system ahead itself. */
  private static final SecureRandom RANDOM = new SecureRandom();

  private final RaindropClient client;
  final String name;

  /** Where calls draw from. Replaced under the lock when it is used up. */
  private volatile Segment current = Segment.EMPTY;

  /** The refill that is under way, or starts when the back-off ends. Changes under the lock. */
  private volatile Refill refill;

  /**
   * How to read the IDs of the buffer, as the last answer said; null before, and if they have no
   * time. As long as answers say the same, this is the same object. When it changes, the buffer is
   * empty. Changes under the lock.
   */
  private volatile Answer.Time time;

  /** What the service accepts in one request, as far as it has refused more. */
  volatile long serviceLimit = Long.MAX_VALUE;

  /**
   * The times before which the base URLs must not be asked, because they said so; only the refill
   * uses them.
   */
  final long[] notBefore;

  // The lock protects the rest.
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  private final ArrayDeque<Answer.Range> ranges = new ArrayDeque<>();
  private long queuedIds;

  /** IDs that waiting calls lack. */
  private long missing;

  /** Why the last refill failed; null if it did not. */
  private RaindropException lastError;

  private int failuresInRow;

  /** How many IDs the last answer had, and when it came by the client's clock. */
  private long fetched;

  private long fetchedAt;

  /** The first IDs of the last answers. */
  private final ArrayDeque<Long> firstIds = new ArrayDeque<>();

  /**
   * IDs used per nanosecond, measured since {@code windowStart}, or before if that is too short.
   */
  private double rate;

  private long windowStart;

  /** What the buffer would have if no ID had been used since {@code windowStart}. */
  private long unusedRest;

  Code(RaindropClient client, String name) {
    this.client = client;
    this.name = name;
    windowStart = client.clock();
    notBefore = new long[client.settings.urls.size()];
    Arrays.fill(notBefore, System.nanoTime());
  }

  /**
   * Returns the next ID. Waits while the buffer is empty, at most as long as the client's deadline.
   */
  public long next() {
    return next(client.settings.deadline);
  }

  /**
   * Returns the next ID, and waits at most {@code timeout}; zero draws from the buffer or fails.
   */
  public long next(Duration timeout) {
    return next(RaindropClient.nanos(timeout));
  }

  /** Returns {@code n} ascending IDs, 1 to the client's {@code maxRange}. */
  public long[] nextMany(int n) {
    return draw(new Batch(n, Form.NUMBERS), client.settings.deadline);
  }

  /** Returns {@code n} ascending IDs, and waits at most {@code timeout} for all of them. */
  public long[] nextMany(int n, Duration timeout) {
    return draw(new Batch(n, Form.NUMBERS), RaindropClient.nanos(timeout));
  }

  /** Returns the text of the next ID: the code's prefix and the decimal number. */
  public String nextText() {
    Segment segment = current;
    long index = segment.getAndIncrement();
    return isUsable(segment, index, client.settings.deadline)
        ? segment.range.prefix() + segment.id(index)
        : nextTextMany(1, Duration.ofNanos(client.settings.deadline))[0];
  }

  /**
   * Returns the texts of {@code n} ascending IDs, and waits at most {@code timeout} for all of
   * them.
   */
  public String[] nextTextMany(int n, Duration timeout) {
    Batch batch = new Batch(n, Form.TEXTS);
    draw(batch, RaindropClient.nanos(timeout));
    return batch.prefixes.entrySet().stream()
        .map(id -> id.getValue() + id.getKey())
        .toArray(String[]::new);
  }

  /**
   * Returns the next ID as a UUID of version 7. UUIDs sort by their bytes as their IDs do, and are
   * as unique. What the ID leaves of 74 bits is random: 52 with the default layout. The call fails
   * with an error of kind {@code USAGE} where IDs have no ticks of a millisecond since 1970 or
   * later: in segment mode, and where the time wraps, too.
   */
  public UUID nextUuid() {
    long deadline = System.nanoTime() + client.settings.deadline;
    Answer.Time layout = time;
    if (layout != null) {
      long id = next();
      if (time == layout) {
        checkUuids(layout, 1);
        return uuid(id, layout);
      }
      locked(() -> drop(1));
    }
    return nextUuidMany(1, Duration.ofNanos(deadline - System.nanoTime()))[0];
  }

  /**
   * Returns {@code n} ascending IDs of one layout as UUIDs, and waits at most {@code timeout} for
   * all of them.
   */
  public UUID[] nextUuidMany(int n, Duration timeout) {
    Batch batch = new Batch(n, Form.UUIDS);
    long[] ids = draw(batch, RaindropClient.nanos(timeout));
    checkUuids(batch.time, n);
    return Arrays.stream(ids).mapToObj(id -> uuid(id, batch.time)).toArray(UUID[]::new);
  }

  /** Fails, and drops the IDs drawn, if IDs that came with this time have no UUIDs. */
  private void checkUuids(Answer.Time layout, int drawn) {
    if (layout != null && layout.unitMs() == 1 && layout.epochMs() >= 0) return;
    locked(() -> drop(drawn));
    throw new RaindropException(Kind.USAGE, "the IDs of code " + name + " " + whyNoUuid(layout));
  }

  private static UUID uuid(long id, Answer.Time layout) {
    ByteBuffer random = ByteBuffer.allocate(10);
    RANDOM.nextBytes(random.array());
    return layout.uuid(id, random.getLong(), random.getShort());
  }

  private static String whyNoUuid(Answer.Time layout) {
    if (layout == null) return "have no time, or one that wraps: a UUID needs one";
    if (layout.unitMs() != 1) return "have ticks of " + layout.unitMs() + " ms: a UUID needs 1 ms";
    return "begin at " + layout.epochMs() + " Unix ms: a UUID begins in 1970 or later";
  }

  /**
   * Returns the next ID. Never waits: empty if the buffer is, or if another thread changes it just
   * now. A refill begins in the background if the buffer is low or empty, unless one is under way
   * or the last one failed just now.
   */
  public OptionalLong tryNext() {
    long id = next(-1);
    return id < 0 ? OptionalLong.empty() : OptionalLong.of(id);
  }

  /** Waits until the buffer has an ID, at most as long as the client's deadline, and takes none. */
  public void warmUp() {
    warmUp(Duration.ofNanos(client.settings.deadline));
  }

  /**
   * Waits until the buffer has an ID, at most {@code timeout}, and takes none: for example before a
   * process says that it is ready. With {@code minRange}, the buffer then has as many IDs.
   */
  public void warmUp(Duration timeout) {
    Wait wait = new Wait(RaindropClient.nanos(timeout));
    lock.lock();
    try {
      while (freshSegment() == null) await(1, wait);
    } catch (RaindropException e) {
      wait.error = e;
      throw e;
    } finally {
      lock.unlock();
      wait.report();
    }
  }

  /**
   * Returns the time that an ID of this code tells, in units of the layout, as the last answer says
   * to read it. Before the first answer, and where IDs have no time, the call fails with an error
   * of kind {@code USAGE}.
   */
  public Instant timeOf(long id) {
    Answer.Time layout = time;
    RaindropClient.require(id >= 0, "id = " + id + ": IDs are 0 or larger");
    RaindropClient.require(
        layout != null, "no answer for " + name + " has said how to read the time of its IDs");
    return layout.of(id);
  }

  /**
   * Returns the next ID. With a negative timeout it never waits, and returns -1 if the buffer is
   * empty.
   */
  private long next(long timeout) {
    Segment segment = current;
    long index = segment.getAndIncrement();
    if (isUsable(segment, index, timeout)) return segment.id(index);
    long[] ids = draw(new Batch(1, Form.NUMBERS), timeout);
    return ids == null ? -1 : ids[0];
  }

  /**
   * Returns whether an index that was drawn from a segment is an ID that is not too old; one that
   * is too old is dropped. Starts a refill if the buffer is low. With a negative timeout it never
   * waits.
   */
  private boolean isUsable(Segment segment, long index, long timeout) {
    // After the draw, so that no pause comes between them.
    boolean fresh = segment.range.isFresh(client);
    if (fresh && index < segment.refillAt) return true;
    if (fresh && index < segment.count) {
      // Whoever holds the lock, a later call looks again.
      if (refill == null && lock.tryLock()) {
        try {
          refillIfLow(null);
        } finally {
          lock.unlock();
        }
      }
      return true;
    }
    if (index < segment.count) {
      if (timeout < 0) {
        client.schedule(() -> locked(() -> drop(1)), 0);
      } else {
        locked(() -> drop(1));
      }
    }
    return false;
  }

  /** The form in which a call returns its IDs. */
  private enum Form {
    NUMBERS,
    TEXTS,
    UUIDS
  }

  /** The IDs that a call has drawn so far. Changes under the lock. */
  private final class Batch {
    private final Form form;
    private final long[] ids;
    private int drawn;

    /** The range whose IDs become too old first. */
    private Answer.Range oldest = Segment.EMPTY.range;

    /** For texts, the prefix of each ID. */
    private final SortedMap<Long, String> prefixes = new TreeMap<>();

    /** The time of the last ID; UUIDs have one in common. */
    private Answer.Time time;

    Batch(int n, Form form) {
      int most = client.settings.maxRange;
      if (n < 1 || n > most)
        throw new RaindropException(Kind.USAGE, "n = " + n + ": must be 1 to " + most);
      this.form = form;
      ids = new long[n];
    }

    int lacking() {
      return ids.length - drawn;
    }

    /** Draws from a segment of the buffer as many IDs as it has, up to those that are lacking. */
    void add(Segment segment) {
      if (form == Form.UUIDS && time != Code.this.time) clear();
      time = Code.this.time;
      long index = segment.getAndAdd(lacking());
      for (long end = Math.min(segment.count, index + lacking()); index < end; index++) {
        ids[drawn++] = segment.id(index);
        if (form == Form.TEXTS) prefixes.put(segment.id(index), segment.range.prefix());
      }
      if (oldest.ageless() || segment.range.expires() < oldest.expires()) oldest = segment.range;
    }

    /** Drops what was drawn. */
    void clear() {
      drop(drawn);
      drawn = 0;
      oldest = Segment.EMPTY.range;
      prefixes.clear();
    }
  }

  /**
   * Fills a batch, and returns its IDs. Returns null if the buffer has too few and the timeout, in
   * nanoseconds, is negative.
   */
  private long[] draw(Batch batch, long timeout) {
    Wait wait = new Wait(timeout);
    if (!lock.tryLock()) {
      if (timeout < 0) return null;
      lock.lock();
    }
    try {
      while (batch.lacking() > 0) {
        Segment segment = freshSegment();
        if (segment != null) {
          batch.add(segment);
          // The IDs drawn so far can become too old while the call waits for more.
          if (batch.lacking() == 0 && !batch.oldest.isFresh(client)) batch.clear();
        } else if (timeout >= 0) {
          await(batch.lacking(), wait);
        } else {
          if (client.closed) throw RaindropClient.closedError();
          refillFor(batch.lacking());
          return null;
        }
      }
      refillIfLow(null);
    } catch (RaindropException e) {
      wait.error = e;
      throw e;
    } finally {
      try {
        if (batch.lacking() > 0) batch.clear();
      } finally {
        lock.unlock();
      }
      wait.report();
    }
    Arrays.sort(batch.ids); // They ascend already, unless they come from answers of several nodes.
    return batch.ids;
  }

  /** A call that waits for IDs until a deadline. Times are readings of {@link System#nanoTime}. */
  private final class Wait {
    private final long began = System.nanoTime();
    private final long deadline;

    /** The refill that the call waited for last. */
    private Refill awaited;

    /**
     * The error of the last failed refill among those that the call waited for; null if none
     * failed.
     */
    private RaindropException failure;

    /** The error with which the call failed; null if it did not fail. */
    private RaindropException error;

    Wait(long timeout) {
      deadline = began + timeout;
    }

    /** Tells the hook that the call has ended, if it waited. */
    private void report() {
      if (awaited == null) return;
      Duration duration = Duration.ofNanos(System.nanoTime() - began);
      client.report(hook -> hook.waited(name, duration, error));
    }
  }

  /**
   * Waits for a change. Throws the error of the refill that the call has waited for if every node
   * would answer so, or if the next attempt is not due before the deadline. A refill may be under
   * way at the deadline: the error of one before it says more than that the time is over.
   */
  private void await(int lacking, Wait wait) {
    if (client.closed) throw RaindropClient.closedError();
    if (wait.awaited != null && wait.awaited.error != null) wait.failure = wait.awaited.error;
    if (wait.failure != null && wait.failure.isCertain()) throw wait.failure.again();
    missing += lacking;
    try {
      Refill next = refillFor(0);
      long now = System.nanoTime();
      if (!next.isStarted() && next.waitersFrom - wait.deadline > 0) throw lastError.again();
      long left = wait.deadline - now;
      if (left <= 0) {
        if (wait.failure != null) throw wait.failure.again();
        throw new RaindropException(Kind.DEADLINE, "no ID of " + name + " came in time");
      }
      wait.awaited = next;
      changed.awaitNanos(left);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new RaindropException(
          Kind.CANCELLED, "interrupted while waiting for an ID of " + name, e);
    } finally {
      missing -= lacking;
    }
  }

  /**
   * Starts a refill for calls that lack IDs unless one is under way or backs off, and returns it.
   */
  private Refill refillFor(int lacking) {
    missing += lacking;
    try {
      refillIfLow(null);
      boolean waits = refill != null && !refill.isStarted() && missing > lacking;
      if (waits && System.nanoTime() - refill.waitersFrom >= 0) refillIfLow(refill);
      return refill;
    } finally {
      missing -= lacking;
    }
  }

  /**
   * Starts a refill if waiting calls lack IDs, or if the rest lasts for less than half of the
   * target at the present rate, and returns whether it did: {@code due}, whose back-off is over, or
   * else a new one if there is none. A window of measuring that is shorter than a sixteenth of the
   * target can only raise the rate, and at most so far that the next request is 16 times as large
   * as what was used. A single ID is no rate. While calls wait, they can use little, so a buffer
   * that ran dry within the target is followed by twice as many IDs.
   */
  private boolean refillIfLow(Refill due) {
    long elapsed = client.clock() - windowStart;
    long shortest = client.target / 16 + 1;
    long used = unusedRest - rest();
    if (elapsed < shortest) {
      rate = Math.max(rate, (double) (used - 1) / shortest);
    } else {
      rate = (double) used / elapsed;
      windowStart += elapsed;
      unusedRest -= used;
    }
    setRefillAt();
    if (refill != due || rest() >= Math.max(lowWater(), missing)) return false;
    long wanted = Math.max(client.settings.minRange, missing - rest());
    wanted = Math.max(wanted, (long) Math.ceil(rate * client.target));
    boolean isShort = rest() == 0 && client.clock() - fetchedAt < client.target;
    if (isShort) wanted = Math.max(wanted, 2 * fetched);
    refill = due != null ? due : new Refill(client, this, System.nanoTime());
    refill.start(Math.min(wanted, Math.min(client.settings.maxRange, serviceLimit)));
    return true;
  }

  private long lowWater() {
    return (long) (rate * client.target / 2);
  }

  private void setRefillAt() {
    current.refillAt =
        Math.min(current.count + current.later() + queuedIds - lowWater(), current.count);
  }

  private long rest() {
    return current.rest() + current.later() + queuedIds;
  }

  /**
   * Returns the segment to draw from, after dropping what is too old; null if the buffer is empty.
   */
  private Segment freshSegment() {
    dropExpired();
    for (Segment used = current; used.rest() == 0; used = current) {
      if (used.later() == 0 && ranges.isEmpty()) return null;
      current = used.later() > 0 ? used.following() : new Segment(dequeue(), 0);
      setRefillAt();
    }
    return current;
  }

  private Answer.Range dequeue() {
    Answer.Range range = ranges.remove();
    queuedIds -= range.ids();
    return range;
  }

  /** Drops what is too old; if the client is closed, everything. */
  private void dropExpired() {
    dropWhile(range -> client.closed || !range.isFresh(client));
  }

  private void dropWhile(Predicate<Answer.Range> isUseless) {
    Segment segment = current;
    if (isUseless.test(segment.range)) {
      current = Segment.EMPTY;
      drop(segment.later() + segment.drain());
    }
    while (!ranges.isEmpty() && isUseless.test(ranges.element())) drop(dequeue().ids());
  }

  private void drop(long ids) {
    unusedRest -= ids; // They do not count as used.
    if (ids > 0) client.report(hook -> hook.idsDropped(name, ids));
  }

  private void locked(Runnable change) {
    lock.lock();
    try {
      change.run();
    } finally {
      lock.unlock();
    }
  }

  /**
   * Returns whether an answer came before, because a cache or a proxy repeated it. Refills ask one
   * by one.
   */
  boolean isRepeated(Answer answer) {
    boolean repeated = firstIds.contains(answer.ranges().get(0).first());
    firstIds.add(answer.ranges().get(0).first());
    if (firstIds.size() > REMEMBERED) firstIds.remove();
    return repeated;
  }

  /** Takes what a refill brought. */
  void refilled(Answer answer) {
    locked(
        () -> {
          refill = null;
          lastError = null;
          failuresInRow = 0;
          if (!Objects.equals(time, answer.time())) {
            // Before the time changes: nextUuid reads it before and after it draws.
            dropWhile(range -> true);
            time = answer.time();
          }
          fetched = answer.ids();
          fetchedAt = client.clock();
          queuedIds += answer.ids();
          unusedRest += answer.ids();
          ranges.addAll(answer.ranges());
          changed.signalAll();
          dropExpired();
          refillIfLow(null);
        });
  }

  /**
   * Gives a refill's error to those who wait for it, and backs off until {@code earliest} at least.
   */
  void failed(Refill failed, RaindropException error, long earliest) {
    long most = Math.min(MAX_BACKOFF, 2 * MIN_BACKOFF << Math.min(failuresInRow, 10));
    long now = System.nanoTime();
    long wait = Math.max(ThreadLocalRandom.current().nextLong(most / 2, most + 1), earliest - now);
    Refill next = new Refill(client, this, now + wait);
    // A call that waits is reason to look again sooner than an answer said.
    next.waitersFrom = now + Math.min(wait, MAX_BACKOFF);
    locked(
        () -> {
          failuresInRow++;
          failed.error = error;
          lastError = error;
          refill = next;
          changed.signalAll();
        });
    if (!client.closed) client.logFailure(name, error);
    if (wait > MAX_BACKOFF) client.schedule(() -> locked(() -> refillFor(0)), MAX_BACKOFF);
    client.schedule(
        () ->
            locked(
                () -> {
                  if (!next.isStarted() && !refillIfLow(next) && refill == next) refill = null;
                }),
        wait);
  }

  /** Drops what nobody came for. Calls check the age themselves, so this may be late. */
  void sweep() {
    locked(this::dropExpired);
  }

  /** Ends the refill and all waits, and drops the buffer. The client is marked as closed before. */
  void close() {
    locked(
        () -> {
          dropExpired();
          if (refill != null) refill.cancel();
          changed.signalAll();
        });
  }
}
