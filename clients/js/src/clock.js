/**
 * The clocks of the platform, in milliseconds. `wall` may step; `steady` may stop while a machine
 * sleeps. A test that replaces the global Date later freezes no buffer.
 */
export const platformClock = { wall: Date.now, steady: performance.now.bind(performance) };

/**
 * Measures ages: goes on while the machine sleeps, and never goes back.
 *
 * It is the steady clock, plus every step forward that the wall clock makes beside it: such a step
 * is either time that the steady clock slept through, or a correction, which only ages IDs early.
 */
export class AgeClock {
  #clock;
  #slack;
  #difference;
  #slept = 0;

  /**
   * @param {{wall: () => number, steady: () => number}} clock
   * @param {number} slack how far the clocks may drift apart unnoticed, in milliseconds
   */
  constructor(clock, slack) {
    this.#clock = clock;
    this.#slack = slack;
    this.#difference = clock.wall() - clock.steady();
  }

  /** Returns the time in milliseconds since an arbitrary start. */
  now(wall = this.#clock.wall()) {
    const steady = this.#clock.steady();
    const difference = wall - steady;
    if (difference > this.#difference + this.#slack) {
      this.#slept += difference - this.#difference;
      this.#difference = difference;
    } else if (difference < this.#difference) {
      this.#difference = difference;
    }
    return steady + this.#slept;
  }
}
