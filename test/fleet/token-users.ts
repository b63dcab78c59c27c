/**
 * Users who call a tool with access tokens that live for seconds, while `identity` is killed between the answer of the authorization server and
 * its commit. Whatever mixes two users up, or loses a token family, is counted.
 */
import type { AuthorizationServer } from '../../apps/identity/spec/authorization-server.mjs';
import type { TestFleet } from './test-fleet.js';

const GIVE_UP_MS = 120_000;
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Findings of the users. */
export interface TokenFindings {
  calls: number;
  /** Answers with the account of another user. */
  crossed: string[];
  /** Users that had to connect again: their refresh was under way when `identity` was killed. */
  reconnected: number;
  /** Other answers, by status and code. */
  others: Record<string, number>;
}

interface TokenUsers {
  fleet: TestFleet;
  login: AuthorizationServer;
  /** A tool of the source that answers with the account. */
  tool: string;
  source: string;
  redirectUri: string;
  users: number;
  seconds: number;
  /** Between two calls of a user. */
  pauseMs: number;
  kills: number;
}

/** Has users call until the time is over and each of them has had a refresh, and a success after the last kill. */
export async function callAsTokenUsers(options: TokenUsers): Promise<TokenFindings> {
  const { fleet, login, tool, source, redirectUri, users, seconds, pauseMs } = options;
  const found: TokenFindings = { calls: 0, crossed: [], reconnected: 0, others: {} };
  const note = (what: string) => (found.others[what] = (found.others[what] ?? 0) + 1);
  const names = Array.from({ length: users }, (_, index) => `user${index}`);
  const connect = async (name: string, key: string): Promise<boolean> => {
    const path = `/api/v1/connections/${source}/authorize`;
    const begun = await fleet.ask({ path, body: { redirect_uri: redirectUri }, key });
    if (begun.status !== 200) return false;
    const redirect = await login.signIn(String(begun.body.authorization_url), `${name}@login`);
    const ended = await fleet.ask({
      path: '/api/v1/connections/finish',
      body: { redirect, redirect_uri: redirectUri },
      key,
    });
    return ended.status === 200;
  };
  const keys = new Map<string, string>();
  for (const name of names) {
    const body = { client: name, tenant_id: 'acme', user_id: name, tier: 'wide' };
    const { body: key } = await fleet.ask({ path: '/api/v1/keys', body, key: fleet.operatorKey });
    keys.set(name, String(key.token));
    if (!(await connect(name, String(key.token)))) throw new Error(`${name} cannot connect`);
  }
  const from = performance.now();
  let calmSince: number | undefined;
  const killing = killBetween(options).then(() => (calmSince = performance.now()));
  const run = async (name: string): Promise<void> => {
    const key = keys.get(name)!;
    for (let isDone = false; !isDone;) {
      const wasCalm = calmSince !== undefined;
      if (performance.now() - Math.max(from, calmSince ?? Number.POSITIVE_INFINITY) > GIVE_UP_MS)
        throw new Error(`${name} does not succeed after the last kill`);
      const answer = await fleet.call(tool, {}, { key }).catch(() => undefined);
      found.calls += 1;
      if (answer?.status === 200 && answer.body.success) {
        if (answer.body.output !== `${name}@login`) found.crossed.push(`${name} got ${String(answer.body.output)}`);
        isDone = wasCalm && login.refreshes.has(`${name}@login`) && performance.now() - from > seconds * 1_000;
      } else if (answer?.body?.code === 'AUTHORIZATION_REQUIRED') {
        if (await connect(name, key).catch(() => false)) found.reconnected += 1;
      } else
        note(answer ? `${answer.status} ${String(answer.body?.code ?? answer.body?.metadata?.code)}` : 'no answer');
      await sleep(pauseMs);
    }
  };
  await Promise.all([killing, ...names.map(run)]);
  return found;
}

/** Kills `identity` when the authorization server has done its work and its answer is not sent yet. */
async function killBetween({ fleet, login, seconds, kills }: TokenUsers): Promise<void> {
  for (let count = 0; count < kills; count += 1) {
    await sleep((seconds * 1_000) / (kills + 1));
    const killed = Promise.withResolvers<void>();
    let killing: Promise<void> | undefined;
    // All answers that are ready come after the kill.
    login.beforeAnswer = () => (killing ??= fleet.kill('identity').then(killed.resolve));
    await killed.promise;
    login.beforeAnswer = undefined;
    await fleet.launch('identity');
  }
}
