/** Duration in milliseconds. Names of such values end in `Ms`. */
export type Milliseconds = number;
/** Instant in milliseconds since the Unix epoch. Names of such values end in `At`. */
export type EpochMs = number;
/** Money in integer micro-USD: 1 USD = 1,000,000. */
export type MicroUsd = number;

/** Converts USD (a decimal number of a config file or an API) to integer micro-USD, rounded half up. */
export function toMicroUsd(usd: number): MicroUsd {
  return Math.round(usd * 1_000_000);
}

/** Converts micro-USD to the USD number shown at the doors. */
export function toUsd(microUsd: MicroUsd): number {
  return microUsd / 1_000_000;
}

/**
 * Tokens recorded for a call that reports none: one per 2 micro-USD, at least 100.
 * They are only recorded, never counted against a limit.
 */
export function syntheticTokens(microUsd: MicroUsd): number {
  return Math.max(100, Math.floor(microUsd / 2));
}
