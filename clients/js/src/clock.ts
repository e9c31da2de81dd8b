import type { Clock } from './types.js';

/**
 * The clocks of the platform, in milliseconds. `wall` may step; `steady` may stop while a machine
 * sleeps. A test that replaces the global Date later freezes no buffer.
 */
export const platformClock: Clock = { wall: Date.now, steady: performance.now.bind(performance) };

/**
 * Measures ages: goes on while the machine sleeps, and never goes back.
 *
 * It is the steady clock, plus every step forward that the wall clock makes beside it: such a step
 * is either time that the steady clock slept through, or a correction, which only ages IDs early.
 */
export class AgeClock {
  #clock: Clock;
  #slack: number;
  #difference: number;
  #slept = 0;

  /** @param slack how far the clocks may drift apart unnoticed, in milliseconds */
  constructor(clock: Clock, slack: number) {
    this.#clock = clock;
    this.#slack = slack;
    this.#difference = clock.wall() - clock.steady();
  }

  /** Returns the time in milliseconds since an arbitrary start. */
  now(wall = this.#clock.wall()): number {
    const steady = this.#clock.steady();
    const step = wall - steady - this.#difference;
    if (step > this.#slack) this.#slept += step;
    // A smaller step forward may be one of many, so it stays until it is large enough to count.
    if (step > this.#slack || step < 0) this.#difference += step;
    return steady + this.#slept;
  }
}
