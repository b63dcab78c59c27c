import { readFileSync } from 'node:fs';
import { isJsonObject, type Json } from '@toolfleet/contracts';
import { EgressClient, egressFetch } from '@toolfleet/egress';
import type { InterceptorVerdict } from '@toolfleet/engine';
import type { InterceptorSettings } from '@toolfleet/fleet-file';
import type { Clock } from '@toolfleet/resilience';
import type { InterceptorKind } from './interceptor-kind.js';

/** Largest answer of a service: a result in other words. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;

interface HttpInterceptorDeps {
  clock: Clock;
  /** Private addresses that the gateway may call. */
  allowedEndpoints: readonly string[];
  timeoutMs: number;
}

/**
 * Asks a service of the operator by `POST` with `{interceptor, call, result?}`: about the call at `call` and `attempt`, about the result at
 * `result`. It answers with `{"allow": false, "reason": "…"}`, or `{"allow": true}` with `arguments` that replace those of a call, or a
 * `result`: the parts that change, or an answer in place of the tool. Every other answer is a failure of the interceptor.
 */
export function httpInterceptor(
  name: string,
  { url = '', token_file: tokenFile }: InterceptorSettings,
  { clock, allowedEndpoints, timeoutMs }: HttpInterceptorDeps,
): InterceptorKind {
  const client = new EgressClient({ allowlist: [new URL(url).origin], allowedEndpoints, clock });
  const timeouts = { headersMs: timeoutMs, bodyIdleMs: timeoutMs, totalMs: timeoutMs };
  const post = egressFetch(client, { timeouts, maxBytes: MAX_ANSWER_BYTES });
  const token = tokenFile === undefined ? undefined : readFileSync(tokenFile, 'utf8').trim();
  const headers = {
    'content-type': 'application/json',
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  };
  return {
    intercept: async (call, next, signal) => {
      const result = call.at === 'result' ? await next() : undefined;
      const body = JSON.stringify({ interceptor: name, call, result });
      const response = await post(url, { method: 'POST', headers, body, signal, redirect: 'manual' });
      if (response.status !== 200) throw new Error(`answered ${response.status}`);
      const answer = (await response.json()) as Json;
      if (!isJsonObject(answer) || typeof answer.allow !== 'boolean') throw new Error('answered without allow');
      const { allow, reason, arguments: args, result: answered } = answer;
      if (!allow) return { deny: typeof reason === 'string' ? reason : 'no reason given' };
      if (answered !== undefined) return answered as InterceptorVerdict;
      return result ? {} : next({ arguments: args as never });
    },
    close: () => client.close(),
  };
}
