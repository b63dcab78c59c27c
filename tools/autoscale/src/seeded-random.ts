/** Random numbers that a seed repeats: simulated and real runs get the same jobs. */
export class SeededRandom {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** Uniform in (0, 1), by the mulberry32 generator. */
  uniform(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (((mixed ^ (mixed >>> 14)) >>> 0) + 0.5) / 4_294_967_296;
  }

  /** Exponential with the given mean: gaps between independent arrivals. */
  exponential(mean: number): number {
    return -mean * Math.log(this.uniform());
  }

  /** Lognormal with the given mean; `sigma` is the spread of its logarithm. */
  lognormal(mean: number, sigma: number): number {
    const normal = Math.sqrt(-2 * Math.log(this.uniform())) * Math.cos(2 * Math.PI * this.uniform());
    return mean * Math.exp(sigma * normal - (sigma * sigma) / 2);
  }
}
