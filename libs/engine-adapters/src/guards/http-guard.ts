import { readFileSync } from 'node:fs';
import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import { EgressClient, egressFetch } from '@toolfleet/egress';
import type { Guard, GuardedCall, GuardedResult, ResultVerdict } from '@toolfleet/engine';
import type { GuardSettings } from '@toolfleet/fleet-file';
import type { Clock } from '@toolfleet/resilience';

/** Largest answer of a service: a result in other words. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;

interface HttpGuardDeps {
  clock: Clock;
  /** Private addresses that the gateway may call. */
  allowedEndpoints: readonly string[];
  timeoutMs: number;
}

/**
 * Asks a service of the operator by `POST` with `{at, guard, call, result?}`. It answers with `{"allow": true}`,
 * `{"allow": false, "reason": "…"}` or, about a result, `{"allow": true, "result": {…}}` with the parts that change. Every other answer is a
 * failure of the guard.
 */
export function httpGuard(
  name: string,
  { url = '', at = [], token_file: tokenFile }: GuardSettings,
  { clock, allowedEndpoints, timeoutMs }: HttpGuardDeps,
): Pick<Guard, 'onCall' | 'onAttempt' | 'onResult'> & { close(): Promise<void> } {
  const client = new EgressClient({ allowlist: [new URL(url).origin], allowedEndpoints, clock });
  const timeouts = { headersMs: timeoutMs, bodyIdleMs: timeoutMs, totalMs: timeoutMs };
  const post = egressFetch(client, { timeouts, maxBytes: MAX_ANSWER_BYTES });
  const token = tokenFile === undefined ? undefined : readFileSync(tokenFile, 'utf8').trim();
  const headers = {
    'content-type': 'application/json',
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  };
  const ask = async (
    place: string,
    signal: AbortSignal,
    call: GuardedCall,
    result?: GuardedResult,
  ): Promise<ResultVerdict> => {
    const body = JSON.stringify({ at: place, guard: name, call, result });
    const response = await post(url, { method: 'POST', headers, body, signal, redirect: 'manual' });
    if (response.status !== 200) throw new Error(`answered ${response.status}`);
    return toVerdict((await response.json()) as Json);
  };
  const onCall = async (place: string, call: GuardedCall, signal: AbortSignal) => {
    const verdict = await ask(place, signal, call);
    return verdict && 'deny' in verdict ? verdict : undefined;
  };
  return {
    onCall: at.includes('call') ? (call, signal) => onCall('call', call, signal) : undefined,
    onAttempt: at.includes('attempt') ? (call, signal) => onCall('attempt', call, signal) : undefined,
    onResult: at.includes('result') ? (call, result, signal) => ask('result', signal, call, result) : undefined,
    close: () => client.close(),
  };
}

/** @throws Error for an answer that is not a verdict */
function toVerdict(answer: Json): ResultVerdict {
  if (!isJsonObject(answer) || typeof answer.allow !== 'boolean') throw new Error('answered without allow');
  if (!answer.allow)
    return { deny: typeof answer.reason === 'string' ? answer.reason.slice(0, 500) : 'no reason given' };
  return answer.result === undefined ? undefined : { change: toChange(answer.result) };
}

/** The parts of a result that a guard replaces. @throws Error for a part of the wrong type, or one that cannot be replaced */
export function toChange(value: unknown): Partial<Omit<GuardedResult, 'success'>> {
  if (!isJsonObject(value)) throw new Error('the result is not an object');
  const { output, text, content, metadata, error, ...others } = value;
  const isOk =
    Object.keys(others).every((name) => name === 'success') &&
    (text === undefined || typeof text === 'string') &&
    (content === undefined || (Array.isArray(content) && content.every(isJsonObject))) &&
    (metadata === undefined || isJsonObject(metadata)) &&
    (error === undefined || (isJsonObject(error) && typeof error.message === 'string'));
  if (!isOk) throw new Error('the result has a part of the wrong type');
  const change = { output, text, content, metadata, error } as Partial<GuardedResult>;
  return Object.fromEntries(
    Object.entries(change).filter(([, part]) => (part as JsonObject | undefined) !== undefined),
  );
}
