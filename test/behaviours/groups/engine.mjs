/** What every caller relies on, whatever the tool: arguments, time, retries, caching, dedupe, batches, and honest failures. */
import { absent, atLeast, atMost, between, including, present } from '../expectation.mjs';

const batch = (fleet, calls, fields = {}) => fleet.http('/api/v1/tools/batch-execute', { body: { calls, ...fields } });
const faults = async (fleet, args) => {
  const { status, body } = await fleet.call('probe_typed', args);
  return { status, code: body.code, faults: body.details?.faults ?? [] };
};
const plan = async (fleet, tool, args = {}, fields = {}) =>
  (await fleet.call(tool, args, { fields: { dry_run: true, ...fields } })).body.output;
const sleepers = (fleet, count, ms) =>
  Array.from({ length: count }, () => ({ name: 'probe_sleeps', arguments: { ms, key: fleet.fresh() } }));

/** Fields of the JSON text that explains a failure to a model; the message is the tool's own. */
const explanation = ({ body }) => {
  try {
    return { ...JSON.parse(body.text), fallback: body.metadata.fallback };
  } catch {
    return { plain: body.text };
  }
};

export default {
  group: 'execution engine',
  probes: [
    {
      name: 'arguments are coerced without loss',
      reliance: 'numbers, booleans and JSON texts become the type of the schema, defaults are filled in, all is listed',
      expected: {
        args: { text: '5', whole: 5, number: 2.5, flag: true, list: [1], map: { a: 1 }, other: 'filled in' },
        coercions: 6,
      },
      async see(fleet) {
        const { body } = await fleet.call('probe_typed', {
          text: 5,
          whole: ' 5 ',
          number: '2.5',
          flag: 'Yes',
          list: '[1]',
          map: '{"a":1}',
        });
        return { args: body.output.args, coercions: body.metadata.coercions.length };
      },
      needs: 'own',
    },
    {
      name: 'all violations at once',
      reliance: '400 with path, kind and message of each',
      expected: {
        status: 400,
        code: 'ARGUMENTS_INVALID',
        faults: [
          { param: 'text', kind: 'missing', message: "Required parameter 'text' is missing" },
          { param: 'whole', kind: 'type_mismatch', message: "Cannot coerce string 'x' to integer" },
          { param: 'small', kind: 'out_of_range', message: 'Long value 3000000000 out of int range' },
          { param: 'flag', kind: 'type_mismatch' },
          { param: 'list', kind: 'type_mismatch' },
          { param: 'choice', kind: 'enum' },
        ],
      },
      see: (fleet) => faults(fleet, { whole: 'x', small: 3_000_000_000, flag: 'maybe', list: 1, choice: 'c' }),
      needs: 'own',
    },
    {
      name: 'a required text that is blank',
      reliance: 'null_or_empty',
      expected: {
        status: 400,
        faults: [{ kind: 'null_or_empty', message: "Required parameter 'text' is null or empty" }],
      },
      see: (fleet) => faults(fleet, { text: '  ' }),
      needs: 'own',
    },
    {
      name: 'fractions and ranges',
      reliance: '3.5 is no integer, and nothing is clamped',
      expected: { fraction: 'Cannot coerce float 3.5 to integer', range: 'out_of_range' },
      async see(fleet) {
        const fraction = await faults(fleet, { text: 'a', whole: 3.5 });
        const range = await faults(fleet, { text: 'a', whole: 0 });
        return { fraction: fraction.faults[0].message, range: range.faults[0].kind };
      },
      needs: 'own',
    },
    {
      name: 'integers beyond 32 bits',
      reliance: 'a safe integer is one; 32 bits only where the schema has format int32; 2^53 is refused',
      expected: { number: 5_000_000_000, unsafe: 400 },
      async see(fleet) {
        const { body } = await fleet.call('probe_typed', { text: 'a', number: 5_000_000_000 });
        const unsafe = await fleet.http('/api/v1/tools/probe_typed/execute', {
          body: '{"arguments":{"text":"a","number":9007199254740993}}',
        });
        return { number: body.output.args.number, unsafe: unsafe.status };
      },
      needs: 'own',
    },
    {
      name: 'unknown arguments',
      reliance: 'dropped and listed for idempotent tools, refused for tools with effects',
      expected: { dropped: ['extra'], refused: 400 },
      async see(fleet) {
        const { body } = await fleet.call('probe_typed', { text: 'a', extra: 1 });
        const refused = await fleet.call('probe_effect', { extra: 1 });
        return { dropped: body.metadata.dropped_arguments, refused: refused.status };
      },
      needs: 'own',
    },
    {
      name: 'time limits by name and kind',
      reliance:
        'search_ 10 s, create_ 30 s, MCP, function and OpenAPI 30 s, others 15 s; a declared limit and a shorter call go first',
      expected: {
        search: 10_000,
        create: 30_000,
        other: 15_000,
        mcp: 30_000,
        openapi: 30_000,
        declared: 1_000,
        called: 500,
      },
      async see(fleet) {
        const limit = async (...args) => (await plan(fleet, ...args)).timeout_ms;
        return {
          search: await limit('search_probe'),
          create: await limit('create_probe'),
          other: await limit('probe_default'),
          mcp: await limit('sample_add', { a: 1, b: 1 }),
          openapi: await limit('parcels_getParcel', { parcel_id: 'P-1001' }),
          declared: await limit('probe_sleeps', { ms: 1 }),
          called: await limit('probe_default', {}, { timeout_ms: 500 }),
        };
      },
      needs: 'own',
    },
    {
      name: 'a time-out stops the work',
      reliance: 'the signal of the handler is aborted: nothing goes on in the background',
      expected: {
        error: /Tool 'probe_sleeps' timed out after 1000ms/,
        started: 1,
        stopped: 1,
        execution_time_ms: atMost(3_000),
      },
      async see(fleet) {
        const key = fleet.fresh();
        const { body } = await fleet.call('probe_sleeps', { ms: 30_000, key });
        const runs = async (name) => (await fleet.call('probe_runs', { name: `${name} ${key}` })).body.output.runs;
        await fleet.until('it stopped', async () => (await runs('stopped')) > 0, 3_000);
        return { ...body, started: await runs('started'), stopped: await runs('stopped') };
      },
      needs: 'own',
    },
    {
      name: 'a client that leaves',
      reliance: 'closing the request cancels the work',
      expected: { stopped: 1 },
      async see(fleet) {
        const key = fleet.fresh();
        const left = new AbortController();
        const asked = fleet.call('probe_sleeps', { ms: 900, key }, { signal: left.signal }).catch(() => undefined);
        const runs = async (name) => (await fleet.call('probe_runs', { name: `${name} ${key}` })).body.output.runs;
        await fleet.until('it started', async () => (await runs('started')) > 0, 3_000);
        left.abort();
        await asked;
        await fleet.until('it stopped', async () => (await runs('stopped')) > 0, 3_000);
        return { stopped: await runs('stopped') };
      },
      needs: 'own',
    },
    {
      name: 'cancelling an asynchronous call',
      reliance: 'DELETE stops a running call and reports its state',
      expected: { status: 'cancelled' },
      async see(fleet) {
        const args = { code: 'while True: pass', timeout_seconds: 30 };
        const { body } = await fleet.call('execute_python', args, { fields: { mode: 'async' } });
        const path = `/api/v1/calls/${body.call_id}`;
        await fleet.until('it runs', async () => (await fleet.http(path)).body.status === 'claimed');
        await fleet.http(path, { method: 'DELETE' });
        return fleet.ended(body.call_id);
      },
    },
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
      expected: { first: absent, again: 'true', provenance: 'cache', attempts: 0 },
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
      name: 'cache: no-store',
      reliance: 'the call runs although an earlier result could be reused',
      expected: { runs: [1, 1, 2] },
      async see(fleet) {
        const key = fleet.fresh();
        const run = async (fields) => (await fleet.call('probe_repeatable', { key }, { fields })).body.output?.runs;
        return { runs: [await run({}), await run({}), await run({ cache: 'no-store' })] };
      },
      needs: 'own',
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
      expected: { runs: [1, 2] },
      async see(fleet) {
        const key = fleet.fresh();
        const first = await fleet.call('probe_repeatable', { key });
        const other = await fleet.key('other', { tenant_id: fleet.fresh('other') });
        const second = await fleet.call('probe_repeatable', { key }, { key: other });
        return { runs: [first.body.output.runs, second.body.output.runs] };
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
    {
      name: 'parallel calls of a batch',
      reliance: 'at most TOOL_PARALLELISM (5) calls at once, results in order',
      expected: { six: between(500, 1_500), outputs: [250, 250, 250, 250, 250, 250] },
      async see(fleet) {
        const startedAt = performance.now();
        const { body } = await batch(fleet, sleepers(fleet, 6, 250));
        return {
          six: Math.round(performance.now() - startedAt),
          outputs: body.map(({ result }) => JSON.parse(result).output?.slept),
        };
      },
      needs: 'own',
    },
    {
      name: 'a batch with parallel: false',
      reliance: 'its calls run one after the other',
      expected: { status: 200, ms: atLeast(600) },
      async see(fleet) {
        const startedAt = performance.now();
        const { status, body } = await batch(fleet, sleepers(fleet, 3, 200), { parallel: false });
        return { status, ms: Math.round(performance.now() - startedAt), error: body?.error };
      },
      needs: 'own',
    },
    {
      name: 'a batch with max_parallel',
      reliance: 'no more calls than that at once',
      expected: { status: 200, ms: atLeast(400) },
      async see(fleet) {
        const startedAt = performance.now();
        const { status } = await batch(fleet, sleepers(fleet, 4, 200), { max_parallel: 2 });
        return { status, ms: Math.round(performance.now() - startedAt) };
      },
      needs: 'own',
    },
    {
      name: 'dry_run and no_retry of one call of a batch',
      reliance: 'fields of a call apply to it alone',
      expected: [{ dry_run: true }, { runs: 1 }],
      async see(fleet) {
        const key = fleet.fresh();
        const { body } = await batch(fleet, [
          { name: 'probe_effect', arguments: { key: `${key}-dry` }, dry_run: true },
          { name: 'probe_effect', arguments: { key }, no_retry: true },
        ]);
        return body.map(({ result }) => JSON.parse(result).output);
      },
      needs: 'own',
    },
    {
      name: 'an exception of a tool',
      reliance: 'it is a result, without the text of the exception',
      expected: { status: 200, success: false, leaked: false, error_type: 'internal_error' },
      async see(fleet) {
        const { status, body, text } = await fleet.call('probe_throws', {});
        return {
          status,
          success: body.success,
          leaked: text.includes('secret-of-the-process'),
          error_type: body.metadata.error_type,
        };
      },
      needs: 'own',
    },
    {
      name: 'the text of an upstream failure',
      reliance: 'JSON with error, tool, message and suggestion, marked graceful_error',
      expected: {
        error: 'network_error',
        tool: 'up_unreachable',
        message: /ECONNREFUSED/,
        suggestion: present,
        fallback: 'graceful_error',
      },
      see: async (fleet) => explanation(await fleet.callUnreachable()),
      needs: 'own',
    },
    {
      name: 'the text of a failure of the calculator',
      reliance: 'JSON with the words of the tool in message',
      expected: { error: 'internal_error', tool: 'calculator', message: present, suggestion: present },
      see: async (fleet) => explanation(await fleet.call('calculator', { expression: '1 / 0' })),
    },
    {
      name: 'the text of a failure of Python',
      reliance: 'JSON with the exception in message',
      expected: { error: 'internal_error', tool: 'execute_python', message: /ValueError: x/, suggestion: present },
      see: async (fleet) => explanation(await fleet.python('raise ValueError("x")')),
    },
    {
      name: 'the text of a failure of a plugin',
      reliance: 'JSON with escaped quotes, backslashes and line ends in message',
      expected: { error: 'internal_error', tool: 'probe_rejects', message: 'a "quoted" \\ reason\nin two lines' },
      see: async (fleet) => explanation(await fleet.call('probe_rejects', {})),
      needs: 'own',
    },
    {
      name: 'the text of a time-out',
      reliance: 'JSON with class timeout and the advice to simplify',
      expected: { error: 'timeout', tool: 'execute_python', suggestion: /simplify/ },
      see: async (fleet) => explanation(await fleet.python('while True: pass', { timeout_seconds: 1 })),
    },
    {
      name: 'failed validation',
      reliance: 'no stale result and no stub replaces it, and it is not retried',
      expected: { status: 400, body: { success: absent, metadata: absent } },
      see: (fleet) => fleet.call('calculator', {}),
    },
    {
      name: 'a failed tool after a good result',
      reliance: 'a stale result is returned and marked; without one the failure is',
      expected: {
        first: 'live',
        again: {
          success: true,
          metadata: { fallback: 'stale_cache', provenance: 'stale_cache', cache_age_ms: atLeast(1_000) },
        },
      },
      async see(fleet) {
        const name = fleet.fresh('stale').replaceAll('-', '_');
        const { status, body, text } = await fleet.http('/api/v1/sources/mcp', {
          body: {
            name,
            url: `${fleet.upstreams.flaky.origin}/${name}/stale`,
            func_name: name,
            description: 'Answers once',
            parameters: [{ name: 'text', type: 'string', required: false, description: 'Any text' }],
            idempotent: true,
            cache_ttl_seconds: 1,
            retry_policy: { kind: 'custom', max_attempts: 3, base_delay_ms: 1, multiplier: 1 },
          },
        });
        if (status !== 201) throw new Error(`${status} ${body?.error ?? text}`);
        await fleet.until('it is listed', async () => (await fleet.http('/tools/list')).body.includes(name));
        // Every third request of a path succeeds: three attempts reach it, one attempt without retries does not.
        const first = await fleet.call(name, { text: 'same' });
        await new Promise((resolve) => setTimeout(resolve, 1_200));
        const again = await fleet.call(name, { text: 'same' }, { fields: { no_retry: true } });
        return { first: first.body.metadata.provenance, again: again.body };
      },
      needs: 'own',
    },
    {
      name: 'errors over NATS',
      reliance: 'headers with the status, and a body with error, code, hint and call_id',
      expected: { code: '404', body: { error: present, code: 'TOOL_NOT_FOUND', hint: present, call_id: present } },
      see: (fleet) => fleet.nats('tool.call', { name: 'no_such_tool', arguments: {} }),
      needs: 'nats',
    },
    {
      name: 'errors over HTTP',
      reliance: 'the body of a refused call has error, code, hint and call_id',
      expected: {
        body: { error: present, code: 'ARGUMENTS_INVALID', hint: present, call_id: present, details: present },
      },
      see: (fleet) => fleet.call('calculator', {}),
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
          shared: answers.map(({ body }) => body.metadata.coalesced === true || body.metadata.from_cache === 'true'),
        };
      },
      needs: 'own',
    },
  ],
};
