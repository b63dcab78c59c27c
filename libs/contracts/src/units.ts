export type { EpochMs, Milliseconds } from '@toolfleet/base/units';

/** Money as an integer in micro-USD: 1 USD is 1,000,000. */
export type MicroUsd = number;

/** Converts USD, as in configuration files and APIs, to micro-USD, rounded half up. */
export function toMicroUsd(usd: number): MicroUsd {
  return Math.round(usd * 1_000_000);
}

/** Converts micro-USD to USD, as callers see it. */
export function toUsd(microUsd: MicroUsd): number {
  return microUsd / 1_000_000;
}

/**
 * Tokens recorded for a call that reports none: one per 2 micro-USD, at least 100.
 * Recorded only; never counted against a limit.
 */
export function syntheticTokens(microUsd: MicroUsd): number {
  return Math.max(100, Math.floor(microUsd / 2));
}
