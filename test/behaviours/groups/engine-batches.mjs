/** What every caller relies on, whatever the tool: retries, rate limits, cached and shared results, idempotency keys, and batches. */
import { absent, atLeast, including } from '../expectation.mjs';

const batch = (fleet, calls, fields = {}) => fleet.http('/api/v1/tools/batch-execute', { body: { calls, ...fields } });
const plan = async (fleet, tool, args = {}, fields = {}) =>
  (await fleet.call(tool, args, { fields: { dry_run: true, ...fields } })).body.output;

export default {
  group: 'execution engine: retries, cache and batches',
  probes: [
    {
      name: 'retries by kind',
      reliance:
        'three attempts for idempotent OpenAPI tools, one for builtin tools and tools with effects, one with no_retry',
      expected: { openapi: 3, builtin: 1, effect: 1, mcp: 1, noRetry: 1 },
      async see(fleet) {
        const attempts = async (...args) => (await plan(fleet, ...args)).max_attempts;
        return {
          openapi: await attempts('parcels_getParcel', { parcel_id: 'P-1001' }),
          builtin: await attempts('calculator', { expression: '1' }),
          effect: await attempts('parcels_createParcel', {
            body: { id: 'P-1', status: 'announced', to: { name: 'a', city: 'b' }, weight_kg: 1 },
          }),
          mcp: await attempts('sample_add', { a: 1, b: 1 }),
          noRetry: await attempts('parcels_getParcel', { parcel_id: 'P-1001' }, { no_retry: true }),
        };
      },
      needs: 'own',
    },
    {
      name: 'retries of an idempotent tool',
      reliance: 'a failing GET is tried three times, with waits',
      expected: { attempts: 3, requests: 3, code: 'UPSTREAM_ERROR' },
      async see(fleet) {
        const { origin, requests } = fleet.upstreams.once;
        const name = fleet.fresh('flaky').replaceAll('-', '_');
        const spec = {
          openapi: '3.0.0',
          info: { title: 'Flaky', version: '1' },
          paths: { [`/${name}`]: { get: { operationId: name, responses: { 200: { description: 'ok' } } } } },
        };
        requests.push({ path: 'spent' });
        await fleet.http('/api/v1/sources/openapi', {
          body: { name, spec_inline: JSON.stringify(spec), base_url: origin },
        });
        await fleet.until('it is known', async () => (await fleet.http(`/api/v1/tools/${name}`)).status === 200);
        const { body } = await fleet.call(name, {});
        return {
          attempts: body.metadata.attempts,
          requests: requests.filter(({ path }) => path === `/${name}`).length,
          code: body.metadata.code,
        };
      },
      needs: 'own',
    },
    {
      name: 'the result cache',
      reliance:
        'an idempotent call with the same arguments, in any order and nesting, is answered from the cache and marked',
      expected: { first: absent, again: true, provenance: 'cache', attempts: 0 },
      async see(fleet) {
        const json = fleet.fresh();
        const call = (args) => fleet.call('json_process', args);
        const first = await call({ json_string: `"${json}"`, operation: 'format' });
        const again = await call({ operation: 'format', json_string: `"${json}"` });
        const { metadata } = again.body;
        return {
          first: first.body.metadata.from_cache,
          again: metadata.from_cache,
          provenance: metadata.provenance,
          attempts: metadata.attempts,
        };
      },
    },
    {
      name: 'cache hits and the rate limit',
      reliance: 'a hit uses no token of the limit and is still logged and counted',
      expected: { statuses: [200, 200, 200, 200, 200, 200], executions: 6 },
      async see(fleet) {
        const key = await fleet.key('cached', { tenant_id: fleet.fresh('cached') });
        const statuses = [];
        const executions = await fleet.growth(
          'shannon_tool_executions_total',
          { tool_name: 'probe_limited' },
          async () => {
            for (let call = 0; call < 6; call += 1) {
              statuses.push((await fleet.call('probe_limited', { key: 'same' }, { key })).status);
            }
          },
        );
        return { statuses, executions };
      },
      needs: 'own',
    },
    {
      name: 'tenants and the cache',
      reliance: 'no tenant gets a result of another',
      expected: { own: 'cache', other: 'live' },
      async see(fleet) {
        const key = fleet.fresh();
        await fleet.call('probe_repeatable', { key });
        const own = await fleet.call('probe_repeatable', { key });
        const other = await fleet.key('other', { tenant_id: fleet.fresh('other') });
        const others = await fleet.call('probe_repeatable', { key }, { key: other });
        return { own: own.body.metadata.provenance, other: others.body.metadata.provenance };
      },
      needs: 'own',
    },
    {
      name: 'failed results',
      reliance: 'they are never cached',
      expected: { again: 1 },
      async see(fleet) {
        const code = `1 / 0 # ${fleet.fresh()}`;
        await fleet.python(code);
        return { again: (await fleet.python(code)).body.metadata.attempts };
      },
    },
    {
      name: 'a tool with effects',
      reliance: 'no cache, no dedupe by history: each call runs, also in a session',
      expected: { runs: [1, 2] },
      async see(fleet) {
        const key = fleet.fresh();
        const call = async () =>
          (await fleet.call('probe_effect', { key }, { fields: { session_id: 's' } })).body.output.runs;
        return { runs: [await call(), await call()] };
      },
      needs: 'own',
    },
    {
      name: 'the rate limit of a tool',
      reliance: 'as many calls as the limit, then 429 with Retry-After; the refused call is logged',
      expected: {
        statuses: [200, 200, 200, 429],
        body: { code: 'RATE_LIMITED', error: 'Rate limit exceeded: 3/min' },
        retryAfter: /^\d+$/,
        logged: { success: false, code: 'RATE_LIMITED' },
      },
      async see(fleet) {
        const key = await fleet.key('hasty', { tenant_id: fleet.fresh('hasty') });
        const answers = [];
        for (let call = 0; call < 4; call += 1) {
          answers.push(await fleet.call('probe_limited', { key: fleet.fresh() }, { key }));
        }
        const last = answers[3];
        return {
          statuses: answers.map(({ status }) => status),
          body: last.body,
          retryAfter: last.headers['retry-after'],
          logged: await fleet.callLine(last.body.call_id),
        };
      },
      needs: 'own',
    },
    {
      name: 'idempotency keys',
      reliance: 'the first outcome is replayed; the key with other arguments is 422',
      expected: { runs: [1, 1], mismatch: 422, code: 'IDEMPOTENCY_MISMATCH' },
      async see(fleet) {
        const key = fleet.fresh();
        const send = (value) => fleet.call('probe_effect', { key: value }, { headers: { 'idempotency-key': key } });
        const [first, again, other] = [await send(key), await send(key), await send(`${key}-other`)];
        return {
          runs: [first.body.output.runs, again.body.output.runs],
          mismatch: other.status,
          code: other.body.code,
        };
      },
      needs: 'own',
    },
    {
      name: 'the same call at the same time',
      reliance: 'concurrent identical calls of an idempotent tool run once',
      expected: { runs: [1, 1, 1, 1, 1], shared: including(true) },
      async see(fleet) {
        const key = fleet.fresh();
        const answers = await Promise.all(Array.from({ length: 5 }, () => fleet.call('probe_repeatable', { key })));
        return {
          runs: answers.map(({ body }) => body.output.runs),
          shared: answers.map(({ body }) => body.metadata.coalesced === true || body.metadata.from_cache === true),
        };
      },
      needs: 'own',
    },
    {
      name: 'a batch',
      reliance: 'records in the order asked, in the published shape; one failure stops no other call',
      expected: [
        {
          id: /^call_/,
          type: 'function',
          function: { name: 'calculator', arguments: '{"expression":"6*7"}' },
          result: /"success":true/,
          success: true,
          skipped: false,
          execution_time: atLeast(0),
        },
        { success: false, result: /TOOL_NOT_FOUND/ },
        { success: true },
      ],
      see: async (fleet) =>
        (
          await batch(fleet, [
            { name: 'calculator', arguments: { expression: '6*7' } },
            { name: 'no_such_tool', arguments: {} },
            { name: 'calculator', arguments: { expression: '6*8' } },
          ])
        ).body,
    },
    {
      name: 'duplicates in a batch',
      reliance: 'the same call runs once; the second record is skipped and names the first',
      expected: { skipped: [false, true], runs: 1, metadata: { duplicate_of: 'call_0' } },
      async see(fleet) {
        const call = { name: 'probe_effect', arguments: { key: fleet.fresh() } };
        const { body } = await batch(fleet, [call, call]);
        const { output, metadata } = JSON.parse(body[1].result);
        return { skipped: body.map(({ skipped }) => skipped), runs: output.runs, metadata };
      },
      needs: 'own',
    },
  ],
};
