/** Label value for everything past the bound or not in the registry. */
export const OTHER_LABEL = 'other';

/**
 * Keeps the number of values of one label bounded: the first `max` distinct values pass, later ones read `other`.
 * A guard behind the rule that label values come from the registry; without it one hostile name list fills Prometheus.
 */
export class BoundedLabel {
  readonly #seen = new Set<string>();

  constructor(private readonly max = 2_000) {}

  /** `value` itself, or `other`. */
  of(value: string): string {
    if (this.#seen.has(value)) return value;
    if (this.#seen.size >= this.max) return OTHER_LABEL;
    this.#seen.add(value);
    return value;
  }
}
