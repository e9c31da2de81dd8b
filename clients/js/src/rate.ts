/** How long one window of the measurement is, in milliseconds. */
const WINDOW = 1000;

/** What was used in a shorter span, or fewer IDs, say nothing yet about the rate. */
const SHORTEST_SPAN = 100;
const FEWEST = 16;

/** Measures the rate of use, from a counter that only grows. */
export class Rate {
  #start = 0;
  #countAtStart = 0;
  #previous = 0;
  #isIdle = true;

  /**
   * Returns how many IDs are used per millisecond. It follows a burst at once, and forgets one
   * within two windows. The first call after a pause only begins the measurement: however many IDs
   * it took, it says nothing about the next one.
   *
   * @param now in milliseconds
   * @param count how many IDs were used until now
   */
  measure(now: number, count: number): number {
    const elapsed = now - this.#start;
    const used = count - this.#countAtStart;
    const isFirst = this.#isIdle && used > 0;
    if (isFirst || elapsed >= WINDOW) {
      this.#previous = isFirst ? 0 : used / elapsed;
      this.#start = now;
      this.#countAtStart = count;
      this.#isIdle = used === 0;
      return this.#previous;
    }
    const fading = this.#previous * (1 - elapsed / WINDOW);
    return used < FEWEST ? fading : Math.max(used / Math.max(elapsed, SHORTEST_SPAN), fading);
  }
}
