import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  createSecretKey,
  hkdfSync,
  randomBytes,
  timingSafeEqual,
  type KeyObject,
} from 'node:crypto';
import {
  type EpochMs,
  type JsonObject,
  type Origin,
  type Person,
  type Principal,
  type SpendingScopes,
  type Json,
} from '@toolfleet/contracts';
import { canonicalJson } from '@toolfleet/bounded-schema';
import type { Clock } from '@toolfleet/resilience';
import { isAuthenticated, narrowGlobs } from '@toolfleet/engine/access';

/** Purpose of a signed token. It is part of the MAC: a token for one purpose is invalid for any other. */
type TokenPurpose = 'delegation' | 'grant';

/** Gateways verify each other's tokens by their own clocks; NTP keeps them well within this. */
const CLOCK_SKEW_MS = 2_000;

/** Time until every gateway has read a changed secret file; Kubernetes updates it in a pod within about a minute. */
const SPREAD_MS = 120_000;
/** Default of the longest life of a token. */
const LONGEST_LIFE_MS = 900_000;
const LEAST_LENGTH = 32;
const CIPHER = 'aes-256-gcm';
const IV_BYTES = 12;
const TAG_BYTES = 16;

interface SigningKey {
  secret: string;
  /** AES-256 key of sealed tokens. */
  sealing: KeyObject;
  signsFrom: EpochMs;
  verifiesUntil: EpochMs;
}

/**
 * Signs small payloads that pass through other hands before they come back: `<base64url of {e, p}>.<base64url of
 * HMAC-SHA-256>`, keyed by `GATEWAY_TOKEN_SECRET`. Signed payloads are readable, so they must not contain secrets. Sealed ones are
 * not: `<base64url of IV, AES-256-GCM of {e, p}, tag>`.
 */
export class SignedTokens {
  /** Oldest first. */
  private keys: SigningKey[];

  constructor(
    secret: string,
    private readonly clock: Clock,
    /** Longest life of a token that is signed, in ms. */
    private readonly longestLifeMs = LONGEST_LIFE_MS,
  ) {
    this.keys = [{ ...derived(secret), signsFrom: 0, verifiesUntil: Infinity }];
  }

  /**
   * Replaces the secret without refusing any token: the new secret verifies at once and signs as soon as every gateway knows
   * it; the old one verifies until the last token it signed has expired.
   * @throws RangeError when the secret is too short
   */
  rotate(secret: string): void {
    const now = this.clock.now();
    const signsFrom = now + SPREAD_MS;
    const endsAt = signsFrom + this.longestLifeMs + CLOCK_SKEW_MS;
    const known = this.keys.filter(({ verifiesUntil }) => verifiesUntil > now);
    this.keys = [
      ...known.map((key) => ({ ...key, verifiesUntil: Math.min(key.verifiesUntil, endsAt) })),
      { ...derived(secret), signsFrom, verifiesUntil: Infinity },
    ];
  }

  /** A token that `open` accepts until `expiresAt`. */
  sign(purpose: TokenPurpose, payload: Readonly<Record<string, Json | undefined>>, expiresAt: EpochMs): string {
    const { secret } = this.current();
    const body = Buffer.from(JSON.stringify({ e: expiresAt, p: payload })).toString('base64url');
    return `${body}.${mac(secret, purpose, body).toString('base64url')}`;
  }

  /** Verifies a token. @returns its payload, or null if it is forged, altered, expired or made for another purpose */
  open(purpose: TokenPurpose, token: string): JsonObject | null {
    const dot = token.indexOf('.');
    if (dot < 0) return null;
    const body = token.slice(0, dot);
    const given = Buffer.from(token.slice(dot + 1), 'base64url');
    // Comparing the re-encoded MAC rejects other spellings of it by the spare bits of base64url.
    if (given.length !== 32 || given.toString('base64url') !== token.slice(dot + 1)) return null;
    const now = this.clock.now();
    const isValid = ({ secret, verifiesUntil }: SigningKey): boolean =>
      verifiesUntil > now && timingSafeEqual(mac(secret, purpose, body), given);
    if (!this.keys.some(isValid)) return null;
    return this.unexpired(Buffer.from(body, 'base64url').toString());
  }

  /** A token that its bearer cannot read, and that `unseal` accepts with the same binding until `expiresAt`. */
  seal(binding: string, payload: object, expiresAt: EpochMs): string {
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv(CIPHER, this.current().sealing, iv).setAAD(Buffer.from(binding));
    const text = cipher.update(JSON.stringify({ e: expiresAt, p: payload }), 'utf8');
    return Buffer.concat([iv, text, cipher.final(), cipher.getAuthTag()]).toString('base64url');
  }

  /** @returns the payload of a sealed token, or null if it is forged, altered, expired or bound to something else */
  unseal(binding: string, token: string): JsonObject | null {
    const sealed = Buffer.from(token, 'base64url');
    // Other spellings of the same bytes are rejected, as in `open`.
    if (sealed.length < IV_BYTES + TAG_BYTES || sealed.toString('base64url') !== token) return null;
    const now = this.clock.now();
    for (const { sealing, verifiesUntil } of this.keys) {
      if (verifiesUntil <= now) continue;
      const cipher = createDecipheriv(CIPHER, sealing, sealed.subarray(0, IV_BYTES), { authTagLength: TAG_BYTES });
      cipher.setAAD(Buffer.from(binding)).setAuthTag(sealed.subarray(-TAG_BYTES));
      try {
        const text = cipher.update(sealed.subarray(IV_BYTES, -TAG_BYTES), undefined, 'utf8') + cipher.final('utf8');
        return this.unexpired(text);
      } catch {
        // Sealed with another key, or not by this fleet.
      }
    }
    return null;
  }

  private current(): SigningKey {
    const now = this.clock.now();
    return this.keys.findLast(({ signsFrom }) => signsFrom <= now)!;
  }

  private unexpired(text: string): JsonObject | null {
    const { e, p } = JSON.parse(text) as { e: EpochMs; p: JsonObject };
    return this.clock.now() <= e + CLOCK_SKEW_MS ? p : null;
  }
}

function derived(secret: string): Pick<SigningKey, 'secret' | 'sealing'> {
  if (secret.length < LEAST_LENGTH)
    throw new RangeError(`GATEWAY_TOKEN_SECRET needs at least ${LEAST_LENGTH} characters`);
  return {
    secret,
    sealing: createSecretKey(new Uint8Array(hkdfSync('sha256', secret, '', 'toolfleet.sealed_tokens.1', 32))),
  };
}

function mac(secret: string, purpose: TokenPurpose, body: string): Buffer {
  return createHmac('sha256', secret).update(`toolfleet.${purpose}.1.${body}`).digest();
}

/** Prefix of a delegation token; not part of any API key (`tf_`) or JWT (`ey`). */
export const DELEGATION_PREFIX = 'tfd_';

/** Rights of a delegation token. */
interface DelegationGrant {
  principal: Principal;
  /** Origin of the call; calls made on its behalf reach no more than it could. Default `public`. */
  origin?: Origin;
  /** The call that makes further calls. */
  callId: string;
  /** Project of that call. */
  project?: Principal['parentProject'];
  /** Budgets that call spends from. */
  spends: SpendingScopes;
  /** Tools that these calls may use, at most the principal's. */
  scopes: readonly string[];
  /** The call's deadline. */
  expiresAt: EpochMs;
}

/** Issues the token that a tool that calls tools receives in its exec message. */
export function issueDelegation(tokens: SignedTokens, grant: DelegationGrant): string {
  const { principal, spends } = grant;
  const { toolset } = principal;
  const payload = {
    t: principal.tenantId,
    u: principal.userId,
    r: [...principal.roles],
    // In a toolset, names are those that the toolset shows.
    g: toolset ? [...principal.tools] : narrowGlobs(principal.tools, grant.scopes),
    s: toolset && [toolset.name, toolset.version ?? null, narrowGlobs(toolset.tools ?? ['*'], grant.scopes)],
    c: grant.callId,
    x: grant.expiresAt,
    b: [spends.requestId, spends.agentId ?? null, spends.taskId ?? null],
    o: grant.origin === 'internal' ? grant.origin : undefined,
    l: principal.tier,
    a: isAuthenticated(principal) || undefined,
    k: principal.keyId,
    p: principal.root && { ...principal.root },
    i: principal.sessionId,
    j: grant.project && [grant.project.id, grant.project.create],
  };
  return DELEGATION_PREFIX + tokens.sign('delegation', payload, grant.expiresAt);
}

/** The caller that a delegation token stands for, or null if it is forged, altered or expired. */
export function openDelegation(tokens: SignedTokens, token: string): Principal | null {
  if (!token.startsWith(DELEGATION_PREFIX)) return null;
  const payload = tokens.open('delegation', token.slice(DELEGATION_PREFIX.length));
  if (!payload) return null;
  // The MAC proves that issueDelegation wrote it, so its shape is known.
  const [project, create = false] = (payload['j'] ?? []) as [string?, boolean?];
  const toolset = payload['s'] as [string, number | null, string[]] | undefined;
  const [requestId, agentId, taskId] = payload['b'] as [string, string | null, string | null];
  return {
    tenantId: payload['t'] as string,
    userId: payload['u'] as string,
    roles: payload['r'] as string[],
    tools: payload['g'] as string[],
    toolset: toolset && { name: toolset[0], version: toolset[1] ?? undefined, tools: toolset[2] },
    via: 'delegation',
    authenticated: payload['a'] === true,
    parentCallId: payload['c'] as string,
    expiresAt: payload['x'] as EpochMs,
    parentSpends: {
      requestId,
      agentId: agentId ?? undefined,
      taskId: taskId ?? undefined,
    },
    parentProject: project === undefined ? undefined : { id: project, create },
    parentOrigin: payload['o'] as Origin | undefined,
    tier: payload['l'] as string | undefined,
    keyId: payload['k'] as string | undefined,
    root: payload['p'] as Person | undefined,
    sessionId: payload['i'] as string | undefined,
  };
}

/** Binding of an MCP `requestState`. From another caller or toolset, for another tool or with other arguments it is refused. */
interface StateBinding {
  principal: Principal;
  tool: string;
  arguments: JsonObject;
}

/** Seals the state of a call that waits for input (MCP `input_required`); the caller sends it back with its answer. */
export function sealRequestState(
  tokens: SignedTokens,
  binding: StateBinding,
  state: object,
  expiresAt: EpochMs,
): string {
  return tokens.seal(bindingHash(binding), state, expiresAt);
}

/** The state, or null if it is forged, expired, or bound to another caller, toolset, tool or arguments. */
export function openRequestState(tokens: SignedTokens, binding: StateBinding, token: string): JsonObject | null {
  return tokens.unseal(bindingHash(binding), token);
}

function bindingHash({ principal, tool, arguments: args }: StateBinding): string {
  const { tenantId, userId, toolset } = principal;
  const bound: Json[] = ['request_state', tenantId, userId, tool, args];
  // The same name may stand for another tool in another toolset, and another version may preset other arguments.
  if (toolset) bound.push([toolset.name, toolset.version ?? null]);
  // A repeated request may have its keys in another order.
  return createHash('sha256').update(canonicalJson(bound)).digest('base64url');
}

/** The user of a call and the grant that it acts with. */
interface GrantOfCall {
  tenantId: string;
  userId: string;
  source: string;
  grantId: string;
}

/** Issues the token with which the executor of a call asks `identity` for the credential of its user. It permits nothing else. */
export function issueGrantToken(tokens: SignedTokens, grant: GrantOfCall, expiresAt: EpochMs): string {
  const { tenantId, userId, source, grantId } = grant;
  return tokens.sign('grant', { t: tenantId, u: userId, s: source, g: grantId }, expiresAt);
}

/** The call that a grant token was issued for, or null if it is forged, altered or expired. */
export function openGrantToken(tokens: SignedTokens, token: string): GrantOfCall | null {
  const payload = tokens.open('grant', token);
  // The MAC proves that issueGrantToken wrote it, so its shape is known.
  const { t, u, s, g } = (payload ?? {}) as Record<string, string>;
  return payload && { tenantId: t!, userId: u!, source: s!, grantId: g! };
}
