/** What callers of MCP tools and function endpoints rely on: the upstream sees the right request, and its failures are contained. */
import { present } from '../expectation.mjs';

const lastRequest = (upstream, path) => upstream.requests.findLast((request) => request.path === path);

export default {
  group: 'MCP executor',
  probes: [
    {
      name: 'a function endpoint',
      reliance: 'it receives POST {"function", "args"}, the configured headers and the trace',
      expected: {
        method: 'POST',
        text: /^\{"function":"up_echo","args":\{"text":"/,
        headers: { 'x-api-key': 'upstream-secret-value', traceparent: /^00-[0-9a-f]{32}-/ },
      },
      async see(fleet) {
        await fleet.call('up_echo', { text: fleet.fresh() });
        return lastRequest(fleet.upstreams.echo, '/up_echo');
      },
      needs: 'own',
    },
    {
      name: 'an upstream that echoes the credential',
      reliance: 'configured credentials are redacted in results',
      expected: { 'x-api-key': '[redacted]' },
      see: async (fleet) => (await fleet.call('up_echo', { text: fleet.fresh() })).body.output.headers,
      needs: 'own',
    },
    {
      name: 'an upstream that answers 404',
      reliance: 'a result with UPSTREAM_ERROR and "HTTP 404: …", not retried',
      expected: {
        status: 200,
        body: {
          success: false,
          error: /^HTTP 404: /,
          metadata: { code: 'UPSTREAM_ERROR', error_type: 'upstream_error', retryable: false, attempts: 1 },
        },
      },
      see: (fleet) => fleet.call('up_missing', { text: fleet.fresh() }),
      needs: 'own',
    },
    {
      name: 'a host outside the allowlists',
      reliance: 'the call is refused before any connection',
      expected: { success: false, metadata: { code: 'EGRESS_REFUSED' } },
      async see(fleet) {
        const name = fleet.fresh('outside').replaceAll('-', '_');
        const { status, body } = await fleet.http('/api/v1/sources/mcp', {
          body: { name, url: 'https://outside.example/x', func_name: 'x', description: 'x' },
        });
        // Refusing the registration is as good.
        if (status === 422) return { success: false, metadata: { code: 'EGRESS_REFUSED' } };
        if (status !== 201) return body;
        await fleet.until('it is listed', async () => (await fleet.http('/tools/list')).body.includes(name));
        return (await fleet.call(name, { args: {} })).body;
      },
      needs: 'own',
    },
    {
      name: 'a slow upstream',
      reliance: 'the time limit stops the request, and the message names tool and milliseconds',
      // It may have had effects.
      expected: { code: 'OUTCOME_UNKNOWN', error: /'up_slow' .*1000 ?ms/, closed: true },
      async see(fleet) {
        const { body } = await fleet.call('up_slow', { text: fleet.fresh() });
        const request = lastRequest(fleet.upstreams.slow, '/up_slow');
        await fleet.until('the connection is closed', async () => request.closed, 2_000);
        return { code: body.metadata.code, error: body.error, closed: request.closed };
      },
      needs: 'own',
    },
    {
      name: 'five failures in a row at one base URL',
      reliance: 'the sixth call fails fast with 503 and Retry-After; metrics show the open breaker',
      expected: {
        status: 503,
        body: { code: 'BREAKER_OPEN', error: /^Circuit breaker open for http/, retry_after_ms: present },
        retryAfter: present,
        requests: 5,
        state: 2,
        failures: 5,
      },
      async see(fleet) {
        const { failing } = fleet.upstreams;
        let last;
        for (let call = 0; call < 6; call += 1) last = await fleet.call('up_failing', { text: fleet.fresh() });
        const labels = { base_url: failing.origin };
        return {
          ...last,
          retryAfter: last.headers['retry-after'],
          requests: failing.requests.length,
          state: await fleet.metric('mcp-executor', 'shannon_circuit_breaker_state', labels),
          failures: await fleet.metric('mcp-executor', 'shannon_circuit_breaker_failures_total', labels),
        };
      },
      needs: 'own',
    },
    {
      name: 'five 404 answers in a row',
      reliance: 'a 4xx is an answer: the breaker stays closed',
      expected: { status: 200, body: { metadata: { code: 'UPSTREAM_ERROR' } } },
      async see(fleet) {
        let last;
        for (let call = 0; call < 7; call += 1) last = await fleet.call('up_missing', { text: fleet.fresh() });
        return last;
      },
      needs: 'own',
    },
    {
      name: 'five 429 answers of a function endpoint in a row',
      reliance: 'a 429 counts for the breaker',
      expected: { status: 503, body: { code: 'BREAKER_OPEN' } },
      async see(fleet) {
        let last;
        for (let call = 0; call < 6; call += 1) last = await fleet.call('up_limited', { text: fleet.fresh() });
        return last;
      },
      needs: 'own',
    },
    {
      name: 'the limit of MCP tools',
      reliance: 'MCP_RATE_LIMIT_DEFAULT, 60 calls a minute, and Python has PYTHON_EXECUTOR_RATE_LIMIT, 60',
      expected: { sample_add: 60, execute_python: 60, calculator: 2_000, web_search: 120 },
      async see(fleet) {
        const { body } = await fleet.http('/api/v1/limits');
        return Object.fromEntries(body.tools.map(({ tool, per_minute: limit }) => [tool, limit]));
      },
      needs: 'own',
    },
    {
      name: 'the mock endpoint of local mode',
      reliance: '/mcp/mock echoes a function call',
      expected: { status: 200, body: { ok: true, function: 'echo', echo: { text: 'hi' } } },
      see: (fleet) => fleet.http('/mcp/mock', { body: { function: 'echo', args: { text: 'hi' } } }),
      needs: 'own',
    },
  ],
};
