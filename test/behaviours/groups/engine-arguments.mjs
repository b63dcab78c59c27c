/** What every caller relies on, whatever the tool: how arguments are read, and that calls end in time or when cancelled. */
import { atMost } from '../expectation.mjs';

const faults = async (fleet, args) => {
  const { status, body } = await fleet.call('probe_typed', args);
  return { status, code: body.code, faults: body.details?.faults ?? [] };
};
const plan = async (fleet, tool, args = {}, fields = {}) =>
  (await fleet.call(tool, args, { fields: { dry_run: true, ...fields } })).body.output;

export default {
  group: 'execution engine: arguments and time',
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
      reliance: '3.5 is not an integer, and nothing is clamped',
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
      reliance: 'a safe integer is one; 32 bits only where the schema has format int32; beyond 2^53 none loses a digit',
      expected: { number: 5_000_000_000, large: '9007199254740993' },
      async see(fleet) {
        const { body } = await fleet.call('probe_typed', { text: 'a', number: 5_000_000_000 });
        const large = await fleet.http('/api/v1/tools/probe_typed/execute', {
          body: '{"arguments":{"text":"a","number":9007199254740993}}',
        });
        return { number: body.output.args.number, large: large.body.output.args.number };
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
  ],
};
