package org.example.raindrop;

import java.util.concurrent.atomic.AtomicLong;

/**
 * One repetition of a range: IDs with a constant step, which threads draw without a lock. The value
 * is the index of the next ID; it may run past {@code count}.
 */
final class Segment extends AtomicLong {
  static final Segment EMPTY = new Segment(new Answer.Range(0, 1, 0, 1, 1, "", true, 0), 0);

  final transient Answer.Range range;
  private final long repetition;
  private final long first;
  final long count;

  /** The index from which a draw also asks whether to refill; at most {@code count}. */
  volatile long refillAt;

  Segment(Answer.Range range, long repetition) {
    this.range = range;
    this.repetition = repetition;
    first = range.first() + repetition * range.stride();
    count = range.count();
  }

  long id(long index) {
    return first + index * range.step();
  }

  /** Returns how many IDs nobody has drawn. */
  long rest() {
    return Math.max(0, count - get());
  }

  /** Returns how many IDs the range has after this segment. */
  long later() {
    return (range.repeat() - 1 - repetition) * count;
  }

  /** Returns the segment that follows in the same range. */
  Segment following() {
    return new Segment(range, repetition + 1);
  }

  /** Takes all that is left, and returns how many IDs that was. */
  long drain() {
    return Math.max(0, count - getAndSet(count));
  }
}
