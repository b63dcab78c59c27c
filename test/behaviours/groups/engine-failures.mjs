/** What every caller and model relies on when a call fails: which words they get, by which transport. */
import { absent, atLeast, present } from '../expectation.mjs';

/** Fields of the JSON text that explains a failure to a model; the message is the tool's own. */
const explanation = ({ body }) => {
  try {
    return { ...JSON.parse(body.text), fallback: body.metadata.fallback };
  } catch {
    return { plain: body.text };
  }
};

export default {
  group: 'execution engine: failures',
  probes: [
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
      expected: { error: 'execution_error', tool: 'calculator', message: present, suggestion: present },
      see: async (fleet) => explanation(await fleet.call('calculator', { expression: '1 / 0' })),
    },
    {
      name: 'the text of a failure of Python',
      reliance: 'JSON with the exception in message',
      expected: { error: 'execution_error', tool: 'execute_python', message: /ValueError: x/, suggestion: present },
      see: async (fleet) => explanation(await fleet.python('raise ValueError("x")')),
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
  ],
};
