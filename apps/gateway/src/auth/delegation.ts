import type { EpochMs, Origin, Principal, SpendingScopes } from '@toolfleet/contracts';
import { narrowGlobs } from '@toolfleet/engine';
import type { SignedTokens } from './signed-token.js';

/** Prefix of a delegation token; not part of any API key (`tf_`) or JWT (`ey`). */
export const DELEGATION_PREFIX = 'tfd_';

/** What the gateway hands a tool that calls tools. */
export interface DelegationGrant {
  principal: Principal;
  /** Origin of the call: calls made for it never reach more than it could. Default public. */
  origin?: Origin;
  /** The call on whose behalf further calls are made. */
  callId: string;
  /** Budgets that call spends from. */
  spends: SpendingScopes;
  /** Tools those calls may use; never more than the principal may. */
  scopes: readonly string[];
  /** The call's deadline. */
  expiresAt: EpochMs;
}

/** Makes the token that goes out in the exec message of a tool that calls tools. */
export function issueDelegation(tokens: SignedTokens, grant: DelegationGrant): string {
  const { principal, spends } = grant;
  const payload = {
    t: principal.tenantId,
    u: principal.userId,
    r: [...principal.roles],
    g: narrowGlobs(principal.tools, grant.scopes),
    c: grant.callId,
    x: grant.expiresAt,
    b: [spends.requestId, spends.agentId ?? null, spends.taskId ?? null],
    ...(grant.origin === 'internal' ? { o: grant.origin } : {}),
    ...(principal.tier === undefined ? {} : { l: principal.tier }),
    ...(principal.keyId === undefined ? {} : { k: principal.keyId }),
  };
  return DELEGATION_PREFIX + tokens.sign('delegation', payload, grant.expiresAt);
}

/** The caller a delegation token stands for, or null when it is forged, altered or expired. */
export function openDelegation(tokens: SignedTokens, token: string): Principal | null {
  if (!token.startsWith(DELEGATION_PREFIX)) return null;
  const payload = tokens.open('delegation', token.slice(DELEGATION_PREFIX.length));
  if (!payload) return null;
  // the MAC proves that issueDelegation wrote it, so the shape is known
  const [requestId, agentId, taskId] = payload['b'] as [string, string | null, string | null];
  return {
    tenantId: payload['t'] as string,
    userId: payload['u'] as string,
    roles: payload['r'] as string[],
    tools: payload['g'] as string[],
    via: 'delegation',
    parentCallId: payload['c'] as string,
    // Absent in tokens of gateways before it was written; those live for minutes.
    ...(payload['x'] === undefined ? {} : { expiresAt: payload['x'] as EpochMs }),
    parentSpends: {
      requestId,
      ...(agentId === null ? {} : { agentId }),
      ...(taskId === null ? {} : { taskId }),
    },
    ...(payload['o'] === undefined ? {} : { parentOrigin: payload['o'] as Origin }),
    ...(payload['l'] === undefined ? {} : { tier: payload['l'] as string }),
    ...(payload['k'] === undefined ? {} : { keyId: payload['k'] as string }),
  };
}
