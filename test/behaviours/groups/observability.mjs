/** What operators rely on: metrics, log lines, traces, breakers and policy, with the published names. */
import { absent, atLeast, including, oneOf, present } from '../expectation.mjs';

const published = (types) => Object.fromEntries(types.map(([name, type]) => [name, type]));
const typesOf = (text) => published([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => [name, type]));

export default {
  group: 'observability',
  probes: [
    {
      name: 'metrics of calls at the gateway',
      reliance: 'the published names and types',
      expected: {
        shannon_tool_executions_total: 'counter',
        shannon_tool_execution_duration_seconds: 'histogram',
        shannon_tool_errors_total: 'counter',
        shannon_tool_cost_usd: 'counter',
        shannon_rate_limit_exceeded_total: 'counter',
        shannon_rate_limit_tokens_available: 'gauge',
      },
      async see(fleet) {
        await fleet.call('probe_effect', { key: fleet.fresh() });
        await fleet.call('probe_rejects', {});
        const key = await fleet.key('limited-metrics', { tenant_id: fleet.fresh('limited') });
        for (let call = 0; call < 4; call += 1) await fleet.call('probe_limited', { key: fleet.fresh() }, { key });
        return typesOf(await fleet.metrics('gateway'));
      },
      needs: 'own',
    },
    {
      name: 'metrics of breakers at an executor',
      reliance: 'state and failures by base URL',
      expected: { shannon_circuit_breaker_state: 'gauge', shannon_circuit_breaker_failures_total: 'counter' },
      async see(fleet) {
        // The state is shown from the first change on.
        await fleet.callUnreachable(6);
        return typesOf(await fleet.metrics('mcp-executor'));
      },
      needs: 'own',
    },
    {
      name: 'a call in the metrics',
      reliance: 'executions by status, errors by class, cost in USD, one observation of the duration',
      expected: { success: 1, tool_error: 1, errors: 1, cost: 0.001, durations: 1 },
      async see(fleet) {
        const effect = { tool_name: 'probe_effect' };
        const call = () => fleet.call('probe_effect', { key: fleet.fresh() });
        const fail = () => fleet.call('probe_rejects', {});
        return {
          success: await fleet.growth('shannon_tool_executions_total', { ...effect, status: 'success' }, call),
          tool_error: await fleet.growth(
            'shannon_tool_executions_total',
            { tool_name: 'probe_rejects', status: 'tool_error' },
            fail,
          ),
          errors: await fleet.growth(
            'shannon_tool_errors_total',
            { tool_name: 'probe_rejects', error_type: 'execution_error' },
            fail,
          ),
          cost: await fleet.growth('shannon_tool_cost_usd', effect, call),
          durations: await fleet.growth('shannon_tool_execution_duration_seconds_count', effect, call),
        };
      },
      needs: 'own',
    },
    {
      name: 'tokens left of a rate limit',
      reliance: 'shannon_rate_limit_tokens_available follows the bucket, exceeded calls are counted',
      expected: { left: [2, 1, 0], exceeded: 1 },
      async see(fleet) {
        const key = await fleet.key('counted', { tenant_id: fleet.fresh('counted') });
        const left = [];
        const call = () => fleet.call('probe_limited', { key: fleet.fresh() }, { key });
        for (let made = 0; made < 3; made += 1) {
          await call();
          left.push(
            Math.floor(
              await fleet.metric('gateway', 'shannon_rate_limit_tokens_available', { tool_name: 'probe_limited' }),
            ),
          );
        }
        const exceeded = await fleet.growth('shannon_rate_limit_exceeded_total', { tool_name: 'probe_limited' }, call);
        return { left, exceeded };
      },
      needs: 'own',
    },
    {
      name: 'the log line of a call',
      reliance: 'tool_name, duration_ms, cost_usd, success and error, with the ids of call and trace',
      expected: {
        tool_name: 'probe_effect',
        duration_ms: atLeast(0),
        cost_usd: 0.001,
        success: true,
        error: null,
        trace_id: /^[0-9a-f]{32}$/,
        audit: { hash: /^[0-9a-f]{64}$/, prev: /^[0-9a-f]{64}$/ },
      },
      async see(fleet) {
        const { body } = await fleet.call('probe_effect', { key: fleet.fresh() });
        return fleet.callLine(body.call_id);
      },
      needs: 'own',
    },
    {
      name: 'the log line of a failed call',
      reliance: 'it has the code and no arguments',
      expected: { line: { success: false, code: 'TOOL_ERROR', error: present }, leaked: false },
      async see(fleet) {
        const secret = fleet.fresh('argument');
        const { body } = await fleet.call('probe_rejects', { key: secret });
        const line = await fleet.callLine(body.call_id);
        return { line, leaked: JSON.stringify(line).includes(secret) };
      },
      needs: 'own',
    },
    {
      name: 'the span of a call',
      reliance:
        'execute_tool {tool} with the attributes of the conventions, and tool.category, tool.success and tool.cost_usd',
      expected: {
        name: 'execute_tool probe_effect',
        attributes: {
          'gen_ai.operation.name': 'execute_tool',
          'gen_ai.tool.name': 'probe_effect',
          'gen_ai.tool.type': 'function',
          'tool.name': 'probe_effect',
          'tool.category': 'custom',
          'tool.success': true,
          'tool.cost_usd': 0.001,
        },
      },
      async see(fleet) {
        const { body } = await fleet.call('probe_effect', { key: fleet.fresh() });
        return fleet.span(body.call_id);
      },
      needs: 'own',
    },
    {
      name: 'the category of a call that is refused',
      reliance: 'tool.category is set at the start, so that a refused call has it too',
      expected: { 'tool.category': 'data', 'tool.success': false },
      async see(fleet) {
        const { body } = await fleet.call('calculator', {});
        return (await fleet.span(body.call_id)).attributes;
      },
      needs: 'own',
    },
    {
      name: 'retries in the metrics',
      reliance: 'toolfleet_retries_total names the executor of the tool',
      expected: including('executor="openapi"'),
      async see(fleet) {
        const name = fleet.fresh('retried').replaceAll('-', '_');
        const spec = {
          openapi: '3.0.0',
          info: { title: 'Flaky', version: '1' },
          paths: { [`/${name}`]: { get: { operationId: name, responses: { 200: { description: 'ok' } } } } },
        };
        await fleet.http('/api/v1/sources/openapi', {
          body: { name, spec_inline: JSON.stringify(spec), base_url: fleet.upstreams.flaky.origin },
        });
        await fleet.until('it is known', async () => (await fleet.http(`/api/v1/tools/${name}`)).status === 200);
        await fleet.call(name, {});
        const text = await fleet.metrics('gateway');
        return text
          .split('\n')
          .filter((line) => line.startsWith('toolfleet_retries_total{'))
          .join(' ');
      },
      needs: 'own',
    },
    {
      name: 'the hit rate of the cache in the metrics',
      reliance: 'lookups of the cache are counted by outcome',
      expected: { hits: 1, misses: 1 },
      async see(fleet) {
        const key = fleet.fresh();
        const call = () => fleet.call('probe_repeatable', { key });
        const name = 'toolfleet_cache_lookups_total';
        return {
          misses: await fleet.growth(name, { tool_name: 'probe_repeatable', outcome: 'miss' }, call),
          hits: await fleet.growth(name, { tool_name: 'probe_repeatable', outcome: 'hit' }, call),
        };
      },
      needs: 'own',
    },
    {
      name: 'fallbacks in the metrics',
      reliance: 'each explained or replaced failure is counted',
      expected: 1,
      see: (fleet) =>
        fleet.growth('toolfleet_fallbacks_total', { tool_name: 'up_unreachable', kind: 'graceful_error' }, () =>
          fleet.callUnreachable(),
        ),
      needs: 'own',
    },
    {
      name: 'an administrator’s rule of the policy',
      reliance: 'file_write requires admin role, with that message, also for internal callers',
      expected: { code: '403', body: { code: 'POLICY_DENIED', error: 'file_write requires admin role' } },
      see: async (fleet) =>
        fleet.nats(
          'tool.call',
          { name: 'file_write', arguments: { path: 'a', content: 'b' }, project_id: 'p' },
          { key: await fleet.key('plain') },
        ),
      needs: 'nats',
    },
    {
      name: 'health and metrics of every service',
      reliance: 'the nine services are ready and report their build',
      expected: {
        services: [
          'budget',
          'builtin-executor',
          'gateway',
          'identity',
          'mcp-executor',
          'openapi-executor',
          'python-sandbox',
          'records',
          'registry',
        ],
        ready: [200],
        build: true,
      },
      async see(fleet) {
        const names = fleet.services.map(({ name }) => name).toSorted();
        const ready = await Promise.all(
          fleet.services.map(async ({ admin_url: admin }) => (await fetch(`${admin}/health/ready`)).status),
        );
        const texts = await Promise.all(names.map((name) => fleet.metrics(name)));
        return {
          services: names,
          ready: [...new Set(ready)],
          build: texts.every((text) => text.includes('toolfleet_build_info')),
        };
      },
      needs: 'own',
    },
    {
      name: 'recent calls for operators',
      reliance: 'status, stages and cost of each call, without arguments',
      expected: { enabled: true, call: { tool: present, status: present, stages: present, arguments: absent } },
      async see(fleet) {
        await fleet.call('calculator', { expression: '1 + 1' });
        const { body } = await fleet.http('/api/v1/calls?limit=1');
        return { enabled: body.enabled, call: body.calls[0] };
      },
    },
    {
      name: 'health without a credential',
      reliance: '/health and /readiness are open',
      expected: { health: 200, readiness: oneOf(200) },
      async see(fleet) {
        const health = await fleet.http('/health', { key: null });
        return { health: health.status, readiness: (await fleet.http('/readiness', { key: null })).status };
      },
    },
  ],
};
