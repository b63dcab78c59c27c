import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { ToolError, type JsonObject } from '@toolfleet/contracts';
import { startNats, type NatsServer } from '@toolfleet/testing';
import { NatsClient } from '@toolfleet/transport';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  call,
  callOnce,
  closeAll,
  closing,
  connect,
  serveEndpoint,
  tool,
  QUESTION,
} from '../../spec/mcp-endpoint.fixture.js';
import { ElicitationRelay } from '@toolfleet/mcp';

afterEach(closeAll);

let nats: NatsServer;
beforeAll(async () => {
  nats = await startNats();
});
afterAll(() => nats?.stop());

/** The relay of one gateway, on its own connection. */
async function relay(): Promise<ElicitationRelay> {
  const connection = await NatsClient.connect({ url: nats.url, name: 'gateway' });
  closing(() => connection.close());
  return new ElicitationRelay(connection);
}

const FORMS = { elicitation: {} };

/** A client with a user who answers with `answer`; `shown` collects the messages the user saw. */
async function client(url: string, mode: 'auto' | 'legacy', answer: () => unknown) {
  const made = await connect(url, { mode, capabilities: FORMS });
  const shown: string[] = [];
  made.setRequestHandler('elicitation/create', ({ params }) => {
    shown.push(params.message);
    return answer() as { action: 'accept' };
  });
  return { made, shown };
}
const yes = () => ({ action: 'accept', content: { approve: true } });

describe.each(['auto', 'legacy'] as const)('a call that needs approval (%s)', (mode) => {
  it('runs once after approval, with the questions shown; other calls run without asking', async () => {
    const { url, seen } = await serveEndpoint({ elicitation: await relay() });
    const { made, shown } = await client(url, mode, yes);
    const result = await call(made, 'careful', { text: 'x' });
    expect(result).toMatchObject({ isError: false, content: [{ text: 'deleted' }] });
    expect(shown).toEqual([expect.stringContaining(QUESTION)]);
    expect(shown[0]).toContain('{"text":"x"}');
    expect(seen.flatMap(({ approval }) => approval?.given ?? [])).toEqual([{ questions: [QUESTION], revision: 'r1' }]);
    if (mode === 'legacy') expect(new Set(seen.slice(-2).map(({ callId }) => callId)).size).toBe(1);
    expect(await call(made, 'echo')).toMatchObject({ isError: false });
    expect(shown).toHaveLength(1);
  });

  it.each([
    ['false', () => ({ action: 'accept', content: { approve: false } })],
    ['cancel', () => ({ action: 'cancel' })],
    ['decline', () => ({ action: 'decline' })],
  ])('does not run when the answer is %s', async (_, answer) => {
    const { url, seen } = await serveEndpoint({ elicitation: await relay() });
    const { made } = await client(url, mode, answer);
    const result = await call(made, 'careful');
    expect(result).toMatchObject({ isError: true, _meta: { code: 'APPROVAL_DECLINED' } });
    expect(JSON.stringify(result)).not.toContain('credential');
    expect(seen.some(({ approval }) => approval?.given)).toBe(false);
    // The engine records the end of the call, and nothing before it: the refusals that led to the question do not count.
    expect(
      seen
        .filter(({ approval }) => !approval?.asks)
        .map(({ mode: ended }) => ended.kind === 'refused' && ended.reason.code),
    ).toEqual(['APPROVAL_DECLINED']);
  });

  it('is refused with an explanation when the client cannot show forms', async () => {
    const { url, seen } = await serveEndpoint({ elicitation: await relay() });
    for (const capabilities of [{}, { elicitation: { url: {} } }]) {
      const made = await connect(url, { mode, capabilities });
      const result = await call(made, 'careful');
      expect(result).toMatchObject({ isError: true, _meta: { code: 'APPROVAL_REQUIRED', retryable: false } });
      expect(JSON.stringify(result)).toContain('elicitation');
    }
    expect(seen).toHaveLength(2);
    expect(seen.some(({ approval }) => approval?.asks)).toBe(false);
  });
});

describe('an answer of a 2025 client', () => {
  it('reaches its call through another replica', async () => {
    const [asking, other] = [
      await serveEndpoint({ elicitation: await relay() }),
      await serveEndpoint({ elicitation: await relay() }),
    ];
    const made = new Client({ name: 'spec', version: '1' }, { capabilities: FORMS });
    closing(() => made.close());
    const elsewhere: string[] = [];
    const split: typeof fetch = (input, init) => {
      const isAnswer = typeof init?.body === 'string' && !('method' in (JSON.parse(init.body) as object));
      if (isAnswer) elsewhere.push(String(init.body));
      return fetch(isAnswer ? other.url : input, init);
    };
    const requestInit = { headers: { Authorization: 'Bearer alice' } };
    await made.connect(new StreamableHTTPClientTransport(new URL(asking.url), { requestInit, fetch: split }));
    made.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content: { approve: true } }));
    expect(await call(made, 'careful')).toMatchObject({ isError: false });
    expect([elsewhere.length, other.seen.length]).toEqual([1, 0]);
  });

  it('is accepted only from the caller that was asked; an error declines', async () => {
    const [asking, other] = [await relay(), await relay()];
    const alice = { tenantId: 'acme', userId: 'alice', roles: [], tools: ['*'], via: 'api_key' as const };
    const bob = { ...alice, userId: 'bob' };
    const [first, second] = [await asking.expect(alice), await asking.expect(alice)];
    expect(other.deliver(alice, { id: 1, result: {} })).toBe(false);
    expect(other.deliver(alice, { id: 'ask.x.y.z', result: {} })).toBe(false);
    other.deliver(bob, { id: first.id, result: { action: 'accept', who: 'bob' } });
    other.deliver(alice, { id: first.id, result: { action: 'decline', who: 'alice' } });
    other.deliver(alice, { id: second.id, error: { code: -32_601, message: 'no such method' } });
    expect(await first.answer).toMatchObject({ who: 'alice' });
    expect(await second.answer).toBeUndefined();
  });

  it('is not awaited after the client disconnected', async () => {
    const { url, seen } = await serveEndpoint({ elicitation: await relay() });
    const made = await connect(url, { mode: 'legacy', capabilities: FORMS });
    const gone = new AbortController();
    made.setRequestHandler('elicitation/create', () => {
      gone.abort();
      return new Promise(() => undefined);
    });
    await expect(made.callTool({ name: 'careful', arguments: {} }, { signal: gone.signal })).rejects.toThrow();
    expect(seen.some(({ approval }) => approval?.given)).toBe(false);
  });
});

it('an approval of one call is not valid for another (2026)', async () => {
  const { url, seen } = await serveEndpoint();
  const ask = (args: JsonObject, more: JsonObject = {}) => callOnce(url, 'careful', args, more);
  const result = await ask({ text: 'one' });
  expect(result).toMatchObject({ resultType: 'input_required', requestState: expect.any(String) });
  const answer = {
    inputResponses: { approval: { action: 'accept', content: { approve: true } } },
    requestState: result['requestState'] as string,
  };
  expect(await ask({ text: 'two' }, answer)).toMatchObject({
    isError: true,
    _meta: { code: 'APPROVAL_REQUIRED' },
  });
  expect(seen.some(({ approval }) => approval?.given)).toBe(false);
  expect(await ask({ text: 'one' }, answer)).toMatchObject({ isError: false });

  // One approval runs one call: sent again, it carries the same idempotency key.
  expect(await ask({ text: 'one' }, answer)).toMatchObject({ isError: false });
  const keys = seen.filter(({ approval }) => approval?.given).map(({ reuse }) => reuse.idempotencyKey);
  expect(keys).toEqual([expect.stringMatching(/^approval:/), keys[0]]);
  const other = (await ask({ text: 'one' }))['requestState'] as string;
  await ask({ text: 'one' }, { ...answer, requestState: other });
  expect(seen.findLast(({ approval }) => approval?.given)?.reuse.idempotencyKey).not.toBe(keys[0]);
});

it.each(['auto', 'legacy'] as const)(
  'shows the call as it will run, with hidden characters marked (%s)',
  async (mode) => {
    const { url } = await serveEndpoint({
      elicitation: await relay(),
      executeCall: async () => {
        const shown = { tool: 'echo', arguments: { amount: 5, to: 'ann\u202egpj' }, microUsd: 2_500 };
        throw new ToolError('APPROVAL_REQUIRED', {
          facts: { approval: { questions: ['Pay \u200bann?'], revision: 'r1', by: 'entry', call: shown } },
        });
      },
    });
    const { made, shown } = await client(url, mode, () => ({ action: 'decline' }));
    await call(made, 'echo', { amount: '5' });
    expect(shown).toEqual([
      'Pay ‹U+200B›ann?\n\nTool: echo\nArguments: {"amount":5,"to":"ann‹U+202E›gpj"}\nCosts at most: $0.0025',
    ]);
  },
);

it.each(['auto', 'legacy'] as const)('approval of one question does not cover a later one (%s)', async (mode) => {
  const { url } = await serveEndpoint({
    elicitation: await relay(),
    executeCall: async ({ approval }) => {
      throw new ToolError('APPROVAL_REQUIRED', {
        facts: { approval: { questions: [approval?.given ? 'Twice?' : 'Once?'], revision: 'r1', by: 'entry' } },
      });
    },
  });
  const answers = [yes(), { action: 'decline' }];
  const { made, shown } = await client(url, mode, () => answers.shift());
  expect(await call(made, 'echo')).toMatchObject({ isError: true });
  expect(shown[0]).toMatch(/^Once\?/);
});

it.each(['auto', 'legacy'] as const)('approval of one revision does not cover a later one (%s)', async (mode) => {
  let revision = 'r1';
  const sent: unknown[] = [];
  const { url } = await serveEndpoint({
    elicitation: await relay(),
    executeCall: async ({ approval }) => {
      sent.push(approval?.given);
      if (approval?.given?.revision === revision) throw new ToolError('INTERNAL', { message: 'ran' });
      throw new ToolError('APPROVAL_REQUIRED', {
        facts: { approval: { questions: [QUESTION], revision, by: 'entry' } },
      });
    },
  });
  const answers = [yes(), { action: 'decline' }];
  const { made, shown } = await client(url, mode, () => {
    revision = 'r2';
    return answers.shift();
  });
  const result = await call(made, 'echo');
  expect(result).toMatchObject({ isError: true });
  expect(JSON.stringify(result)).not.toContain('ran');
  expect(shown[0]).toContain(QUESTION);
  expect(sent.filter(Boolean)).toEqual([{ questions: [QUESTION], revision: 'r1' }]);
});

describe('a key that is revoked while its 2025 client is asked', () => {
  const asks = {
    method: 'elicitation/create',
    params: { message: 'Who?', requestedSchema: { type: 'object', properties: {} } },
  };
  const prompt = tool('prompt:review', {
    binding: {
      kind: 'mcp',
      server: 'crm',
      transport: 'streamable-http',
      url: 'http://x',
      remoteName: 'review',
      method: 'prompts/get',
    },
    listing: { name: 'review' },
  });

  it.each<[string, (client: Client) => Promise<unknown>]>([
    ['tool', (made) => call(made, 'echo')],
    ['prompt', (made) => made.getPrompt({ name: 'review' })],
  ])('starts no %s', async (_what, request) => {
    let revoked = false;
    let answered = 0;
    const ended: string[] = [];
    const begun = new Set<string>();
    const { url } = await serveEndpoint({
      elicitation: await relay(),
      endCall: (id) => ended.push(id),
      listFeatures: async () => [prompt],
      refusalOf: async () =>
        revoked ? new ToolError('UNAUTHENTICATED', { message: 'The key was revoked' }) : undefined,
      executeCall: async ({ callId, personInput, mode }) => {
        if (mode.kind === 'refused') throw mode.reason;
        begun.add(callId);
        if (personInput?.given) answered += 1;
        throw new ToolError('INPUT_REQUIRED', {
          facts: { input: { server: 'crm', revision: 'r1', requests: { name: asks }, executor: 'e1' } },
        });
      },
    });
    const { made } = await client(url, 'legacy', () => {
      revoked = true;
      return yes();
    });
    const outcome = await request(made).catch(String);
    expect(JSON.stringify(outcome)).toContain('The key was revoked');
    expect(answered).toBe(0);
    // The executor that holds the call open ends it.
    expect(ended).toEqual([...begun]);
  });
});
