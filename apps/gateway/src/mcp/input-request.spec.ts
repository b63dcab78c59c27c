/** Input that the server of a tool asks for, on the way to a 2026 client and back. The whole way is in test/e2e/mcp-endpoint.spec.ts. */
import { ToolError, type CallRequest, type JsonObject } from '@toolfleet/contracts';
import { afterEach, expect, it } from 'vitest';
import { callOnce, closeAll, serveEndpoint, success } from '../../spec/mcp-endpoint.fixture.js';

afterEach(closeAll);

const NAME = { method: 'elicitation/create', params: { message: 'Who?', requestedSchema: { type: 'object' } } };
const six = { inputResponses: { name: { action: 'accept', content: { name: 'Ann' } } } };

/** An endpoint with tools that ask for a name, and requests to it. `given` are the answers that reached the engine. */
async function asking() {
  const seen: CallRequest[] = [];
  const { url } = await serveEndpoint({
    // Every key belongs to a user with its name.
    authenticate: async (headers) => {
      const key = headers[headers.findIndex((name) => name.toLowerCase() === 'authorization') + 1]!;
      return { tenantId: 'acme', userId: key.replace('Bearer ', ''), roles: [], tools: ['*'], via: 'api_key' };
    },
    executeCall: async (request) => {
      const { personInput, input, principal, mode } = request;
      seen.push(request);
      if (mode.kind === 'refused') throw mode.reason;
      if (personInput?.given)
        return success({ said: personInput.given.responses, state: personInput.given.state ?? null });
      if (input.rawArguments['to'] === 'model')
        throw new ToolError('INPUT_REQUIRED', { details: { required_capabilities: { sampling: {} } } });
      const asked = {
        server: 'crm',
        revision: 'r1',
        requests: { name: NAME },
        state: `secret of ${principal.userId}`,
      };
      throw new ToolError('INPUT_REQUIRED', { facts: personInput && { input: asked } });
    },
  });
  const ask = async (name: string, args: JsonObject, more?: JsonObject & { who?: string }) =>
    (await callOnce(url, name, args, more)) as JsonObject & { requestState: string };
  return { seen, ask, given: () => seen.filter(({ personInput }) => personInput?.given) };
}

it('names the server that asks, and goes on with the same call, its key and the state of the server', async () => {
  const { seen, ask, given } = await asking();
  const asked = await ask('echo', { to: 'Bob' });
  expect(asked).toMatchObject({
    resultType: 'input_required',
    inputRequests: { name: { method: 'elicitation/create', params: { requestedSchema: { type: 'object' } } } },
    _meta: { 'io.toolfleet/server': 'crm' },
  });
  expect(JSON.stringify(asked['inputRequests'])).toContain('The MCP server crm asks: Who?');
  // What the server gave to the fleet is not for the client.
  expect(Buffer.from(asked.requestState, 'base64url').includes('secret')).toBe(false);
  const done = await ask('echo', { to: 'Bob' }, { ...six, requestState: asked.requestState });
  expect(done).toMatchObject({ structuredContent: { said: six.inputResponses, state: 'secret of alice' } });
  expect(seen).toHaveLength(2);
  expect(given()[0]).toMatchObject({
    callId: seen[0]?.callId,
    reuse: { cache: 'no-store' },
    personInput: { capabilities: { elicitation: { form: {} } }, given: { revision: 'r1' } },
  });
});

it.each<[string, string, JsonObject, JsonObject & { who?: string }]>([
  ['another caller', 'echo', { to: 'Bob' }, { who: 'bob' }],
  ['another tool', 'careful', { to: 'Bob' }, {}],
  ['other arguments', 'echo', { to: 'Eve' }, {}],
])('takes no answer from or for %s', async (_what, tool, args, more) => {
  const { ask, given } = await asking();
  const { requestState } = await ask('echo', { to: 'Bob' });
  for (const state of [requestState, `${requestState.slice(0, -2)}AA`])
    expect(await ask(tool, args, { ...six, ...more, requestState: state })).toMatchObject({ code: -32_602 });
  expect(given()).toEqual([]);
});

it('says which capability a client would have to declare', async () => {
  const { ask } = await asking();
  expect(await ask('echo', { to: 'model' })).toMatchObject({
    code: -32_021,
    data: { requiredCapabilities: { sampling: {} } },
  });
});

it('goes on at any replica, with the answers and the state of each caller', async () => {
  const [one, other] = [await asking(), await asking()];
  const users = Array.from({ length: 100 }, (_, index) => `user-${index}`);
  // The same call of every user, so that only the caller tells them apart.
  const asked = await Promise.all(users.map((who) => one.ask('echo', { to: 'Bob' }, { who })));
  const results = await Promise.all(
    users.map((who, index) => {
      const inputResponses = { name: { action: 'accept', content: { name: who } } };
      return other.ask('echo', { to: 'Bob' }, { who, inputResponses, requestState: asked[index]!.requestState });
    }),
  );
  expect(results.map(({ structuredContent }) => structuredContent)).toEqual(
    users.map((who) => ({ said: { name: { action: 'accept', content: { name: who } } }, state: `secret of ${who}` })),
  );
  const swapped = { who: users[0]!, ...six, requestState: asked[1]!.requestState };
  expect(await other.ask('echo', { to: 'Bob' }, swapped)).toMatchObject({ code: -32_602 });
});
