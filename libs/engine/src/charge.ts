import {
  CATALOGUE,
  syntheticTokens,
  toUsd,
  type CallResult,
  type ErrorEntry,
  type MicroUsd,
} from '@toolfleet/contracts';
import type { Call } from './call.js';

/** Amounts in micro-USD of one call. */
interface ToolPrice {
  /** The charge, slices included. */
  microUsd: MicroUsd;
  /** The charge without the limit of its reservation. */
  wantedMicroUsd: MicroUsd;
}

/**
 * Replaces the usage that a tool reported by the charge of its call, the one amount that the answer, the metrics and the ledger
 * show. A charge that differs from the tool's report, or exceeds the reservation, is explained in the metadata. Charging a
 * result again does not change it, so a result may be stored with its charge.
 */
export function withCharge(call: Call, result: CallResult): CallResult {
  const { microUsd, wantedMicroUsd } = priceOf(call, result);
  const { usage, metadata } = result;
  const charged: CallResult = { ...result, usage: { ...usage, microUsd } };
  const reservedMicroUsd = call.plan.reserveMicroUsd;
  if (wantedMicroUsd > microUsd) {
    charged.metadata = { ...metadata, cost_usd: toUsd(microUsd), reported_cost_usd: toUsd(wantedMicroUsd) };
  } else if (reservedMicroUsd > 0 && microUsd - settledMicroUsd(result) > reservedMicroUsd) {
    charged.metadata = { ...metadata, cost_overrun_usd: toUsd(microUsd - settledMicroUsd(result) - reservedMicroUsd) };
  }
  return charged;
}

/**
 * Cost of a call: the tool's report (in its usage or `metadata.cost_usd`), else the price of its definition, and at
 * most the reservation. Slices that the tool settled while it ran have their own reservations. The catalogue says which
 * failures cost nothing; usage that a tool reports with one of them still counts.
 */
function priceOf({ plan, maxMicroUsd }: Call, result: CallResult): ToolPrice {
  if (result.provenance !== 'live' || result.replayOf !== undefined) return { microUsd: 0, wantedMicroUsd: 0 };
  const charge = toFailureCharge(result.failure);
  if (charge === 'reservation') return { microUsd: plan.reserveMicroUsd, wantedMicroUsd: plan.reserveMicroUsd };
  const { microUsd: reported } = result.usage;
  const wantedMicroUsd = reported > 0 || charge === 'nothing' ? reported : plan.microUsd;
  const settled = settledMicroUsd(result);
  const microUsd = settled + Math.min(Math.max(0, wantedMicroUsd - settled), maxMicroUsd);
  return { microUsd, wantedMicroUsd: Math.max(microUsd, wantedMicroUsd) };
}

function toFailureCharge(failure: CallResult['failure']): ErrorEntry['charge'] {
  if (!failure) return 'cost';
  return neverStarted(failure) ? 'nothing' : CATALOGUE[failure.code].charge;
}

/** True for an attempt that provably never began. */
function neverStarted(failure: CallResult['failure']): boolean {
  return failure?.facts?.begun === 'no';
}

/** The part of the usage that the tool reserved and settled in slices. */
function settledMicroUsd({ usage }: CallResult): MicroUsd {
  return usage.settled ? usage.microUsd : 0;
}

/**
 * True for a result of a call with a row in the ledger: every one that an executor worked on, free or not. Refused calls,
 * replays and results of another call have none.
 */
export function isExecution({ failure, replaced, replayOf, provenance, attempts, usage }: CallResult): boolean {
  if (replayOf !== undefined || attempts === 0 || neverStarted(failure)) return false;
  const cause = failure ?? replaced;
  if (!cause) return provenance === 'live';
  return CATALOGUE[cause.code].origin !== 'request' || usage.microUsd > 0 || usage.tokens > 0;
}

/** Tokens of a charged result, as its answer and its row show them: those that were used, else synthetic ones for its cost; none for a failure that is not charged. */
export function shownTokens({ usage, provenance, attempts, failure }: CallResult): number {
  if (usage.tokens > 0) return usage.tokens;
  const isCharged = usage.microUsd > 0 || toFailureCharge(failure) !== 'nothing';
  return provenance === 'live' && attempts > 0 && isCharged ? syntheticTokens(usage.microUsd) : 0;
}
