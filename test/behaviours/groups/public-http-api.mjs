/** What any HTTP client relies on: the shapes, statuses and rules of the public Tools API. */
import { absent, atLeast, excluding, including, oneOf, present } from '../expectation.mjs';

const DANGEROUS = { status: 403, text: '{"error":"Tool not available via direct execution"}' };

export default {
  group: 'public HTTP API',
  probes: [
    {
      name: 'GET /api/v1/tools is a bare array of tool objects',
      reliance: 'the list is not wrapped, and each tool has the published fields',
      expected: {
        status: 200,
        tool: {
          name: 'web_search',
          description: present,
          category: 'search',
          version: '1.0',
          parameters: {
            type: 'object',
            properties: { query: { type: 'string' }, max_results: { type: 'integer', default: 10 } },
            required: ['query'],
          },
          timeout_seconds: 30,
          cost_per_use: 0.004,
        },
      },
      async see(fleet) {
        const { status, body } = await fleet.http('/api/v1/tools');
        return { status, tool: body.find(({ name }) => name === 'web_search') };
      },
    },
    {
      name: 'the list filters by category',
      reliance: '?category= returns only tools of that category or tag',
      expected: { code: ['execute_python', 'run_program'], crawler: including('fetch_page', 'web_search'), none: [] },
      async see(fleet) {
        const names = async (category) =>
          (await fleet.http(`/api/v1/tools?category=${category}`)).body.map(({ name }) => name);
        return { code: await names('code'), crawler: await names('crawler'), none: await names('nothing') };
      },
    },
    {
      name: 'the list pages with limit and cursor',
      reliance: 'a page has the asked size and a Link to the next one',
      expected: { size: 2, link: /<[^>]+cursor=[^>]+>; rel="next"/ },
      async see(fleet) {
        const { body, headers } = await fleet.http('/api/v1/tools?limit=2');
        return { size: body.length, link: headers.link };
      },
    },
    {
      name: 'dangerous tools are in no list',
      reliance: 'a client cannot turn the exclusion off',
      expected: excluding('file_write', 'file_delete', 'probe_dangerous'),
      async see(fleet) {
        const paths = [
          '/api/v1/tools?exclude_dangerous=false',
          '/tools/list?exclude_dangerous=false',
          '/tools/schemas',
        ];
        const lists = await Promise.all(paths.map((path) => fleet.http(path)));
        return lists.flatMap(({ body }) => (Array.isArray(body) ? body.map((one) => one.name ?? one) : []));
      },
    },
    {
      name: 'GET of a dangerous tool',
      reliance: '403 with exactly the published body',
      expected: DANGEROUS,
      see: (fleet) => fleet.http('/api/v1/tools/file_write'),
    },
    {
      name: 'execution of a dangerous tool',
      reliance: '403 with exactly the published body, for administrators too',
      expected: DANGEROUS,
      see: (fleet) => fleet.call('file_write', { path: 'a', content: 'b' }),
    },
    {
      name: 'a dangerous tool on every other public path',
      reliance: 'no public endpoint reaches a dangerous tool',
      expected: { shannon: 403, batch: 'TOOL_DANGEROUS', mcp: 'TOOL_DANGEROUS', async: 403, dryRun: 403 },
      async see(fleet) {
        const args = { path: 'a', content: 'b' };
        const shannon = await fleet.http('/tools/execute', { body: { tool_name: 'file_write', parameters: args } });
        const batch = await fleet.http('/api/v1/tools/batch-execute', {
          body: { calls: [{ name: 'file_write', arguments: args }] },
        });
        const mcp = await fleet.mcp('tools/call', { name: 'file_write', arguments: args });
        const later = await fleet.call('file_write', args, { fields: { mode: 'async' } });
        const dryRun = await fleet.call('file_write', args, { fields: { dry_run: true } });
        const record = JSON.parse(batch.body[0].result);
        return {
          shannon: shannon.status,
          batch: record.metadata?.code ?? record.code,
          mcp: mcp.result?._meta?.code,
          async: later.status,
          dryRun: dryRun.status,
        };
      },
    },
    {
      name: 'GET /api/v1/tools/{name}',
      reliance: 'metadata and parameter schema of one tool',
      expected: { status: 200, body: { name: 'calculator', parameters: { type: 'object', required: ['expression'] } } },
      see: (fleet) => fleet.http('/api/v1/tools/calculator'),
    },
    {
      name: 'an execution that succeeds',
      reliance: 'success, output, text, error null, metadata, execution_time_ms and usage',
      expected: {
        status: 200,
        body: {
          success: true,
          output: { result: 42 },
          text: '42',
          error: null,
          metadata: present,
          execution_time_ms: atLeast(0),
          usage: { tokens: oneOf(0, 100), cost_usd: 0 },
        },
      },
      see: (fleet) => fleet.call('calculator', { expression: '6 * 7' }),
    },
    {
      name: 'the text and source of a search',
      reliance: 'text summarizes ("Found N results for \'…\'"), metadata.source names the provider',
      expected: { text: /^Found 5 results for 'toolfleet'/, metadata: { source: present } },
      see: async (fleet) => (await fleet.call('web_search', { query: 'toolfleet', max_results: 5 })).body,
      needs: 'own',
    },
    {
      name: 'a missing arguments object',
      reliance: '400 that names the field',
      expected: { status: 400, body: { error: present, code: 'REQUEST_INVALID', details: { fields: ['arguments'] } } },
      see: (fleet) => fleet.call('calculator', undefined),
    },
    {
      name: 'a body that is not JSON',
      reliance: '400 with an error message',
      expected: { status: 400, body: { error: present } },
      see: (fleet) => fleet.http('/api/v1/tools/calculator/execute', { body: '{"arguments":' }),
    },
    {
      name: 'an empty tool name',
      reliance: '400 for a missing tool name, on both HTTP paths',
      expected: { native: 400, shannon: 400 },
      async see(fleet) {
        const body = { arguments: {} };
        const native = await fleet.http('/api/v1/tools//execute', { body });
        const shannon = await fleet.http('/tools/execute', { body: { tool_name: '', parameters: {} } });
        return { native: native.status, shannon: shannon.status };
      },
    },
    {
      name: 'an unknown tool',
      reliance: '404 on GET and on execution',
      expected: { get: 404, call: 404, error: "Tool 'no_such_tool' not found" },
      async see(fleet) {
        const get = await fleet.http('/api/v1/tools/no_such_tool');
        const call = await fleet.call('no_such_tool', {});
        return { get: get.status, call: call.status, error: call.body.error };
      },
    },
    {
      name: 'no credential, and a wrong one',
      reliance: '401 on all endpoints of tools',
      expected: { statuses: [401, 401, 401, 401], error: present },
      async see(fleet) {
        const answers = await Promise.all([
          fleet.http('/api/v1/tools', { key: null }),
          fleet.http('/api/v1/tools/calculator', { key: null }),
          fleet.call('calculator', { expression: '1' }, { key: null }),
          fleet.http('/api/v1/tools', { key: 'not-a-key-not-a-key-not' }),
        ]);
        return { statuses: answers.map(({ status }) => status), error: answers[0].body.error };
      },
    },
    {
      name: 'X-API-Key',
      reliance: 'the key is accepted in either header',
      expected: { status: 200 },
      see: (fleet) => fleet.http('/api/v1/tools', { key: null, headers: { 'x-api-key': fleet.api_key } }),
    },
    {
      name: 'context that a public caller sends',
      reliance: 'only session_id and user_id reach a session-aware tool',
      expected: {
        context: { session_id: 's-1', user_id: present, tenant_id: absent, project_id: absent },
        refused: 400,
      },
      async see(fleet) {
        const { body } = await fleet.call('probe_context', {}, { fields: { session_id: 's-1' } });
        const refused = await fleet.call('probe_context', {}, { fields: { project_id: 'p' } });
        return { context: body.output.context, refused: refused.status };
      },
      needs: 'own',
    },
    {
      name: 'synthetic tokens',
      reliance: 'one token per 2 micro-USD, at least 100',
      expected: { free: 100, priced: 500, search: 2_000 },
      async see(fleet) {
        const key = fleet.fresh();
        const free = await fleet.call('probe_default', { key });
        const priced = await fleet.call('probe_effect', { key });
        const search = await fleet.call('web_search', { query: key });
        return {
          free: free.body.usage.tokens,
          priced: priced.body.usage.tokens,
          search: search.body.usage.tokens,
        };
      },
      needs: 'own',
    },
    {
      name: 'limits of a key in the headers',
      reliance: 'X-RateLimit-* of the minute',
      expected: { 'x-ratelimit-limit-minute': present, 'x-ratelimit-remaining-minute': present },
      see: async (fleet) => (await fleet.http('/api/v1/tools')).headers,
    },
    {
      name: 'an executor that is not running',
      reliance: 'an unreachable upstream of a tool is a result with NETWORK_ERROR, not an HTTP error',
      expected: {
        status: 200,
        body: { success: false, metadata: { code: 'NETWORK_ERROR', error_type: 'network_error' } },
      },
      see: (fleet) => fleet.callUnreachable(),
      needs: 'own',
    },
    {
      name: 'an asynchronous call',
      reliance: '202 with an id, events until it is done, and a record',
      expected: { status: 202, events: ['accepted', 'started', 'done'], record: { status: 'succeeded' } },
      async see(fleet) {
        const accepted = await fleet.call('calculator', { expression: '20 + 22' }, { fields: { mode: 'async' } });
        const path = `/api/v1/calls/${accepted.body.call_id}`;
        const { text } = await fleet.http(`${path}/events`);
        const record = await fleet.ended(accepted.body.call_id);
        return {
          status: accepted.status,
          events: [...text.matchAll(/^event: (\w+)$/gm)].map(([, type]) => type),
          record,
        };
      },
    },
    {
      name: 'MCP: tools/list and tools/call',
      reliance: 'entries have name, description and inputSchema; results have content and isError',
      expected: {
        tool: { name: 'calculator', description: present, inputSchema: { type: 'object' } },
        result: { content: [{ type: 'text', text: '42' }], isError: false, _meta: { call_id: /^[0-9a-f-]{36}$/ } },
      },
      async see(fleet) {
        const { result: list } = await fleet.mcp('tools/list', {});
        const { result } = await fleet.mcp('tools/call', { name: 'calculator', arguments: { expression: '6*7' } });
        return { tool: list.tools.find(({ name }) => name === 'calculator'), result };
      },
    },
    {
      name: 'MCP: null arguments',
      reliance: 'null becomes {}',
      expected: { isError: false, structuredContent: {} },
      see: async (fleet) => (await fleet.mcp('tools/call', { name: 'probe_default', arguments: null })).result,
      needs: 'own',
    },
    {
      name: 'MCP: a failed tool',
      reliance: 'isError mirrors the result',
      expected: { isError: true, _meta: { code: 'TOOL_ERROR' } },
      see: async (fleet) => (await fleet.mcp('tools/call', { name: 'probe_rejects', arguments: {} })).result,
      needs: 'own',
    },
    {
      name: 'MCP: the session of the exchange',
      reliance: 'a session-aware tool receives a session although the client sends no field of toolfleet',
      expected: { session_id: present },
      async see(fleet) {
        const { result } = await callInMcpSession(fleet, 'probe_context', {});
        return result.structuredContent?.context;
      },
      needs: 'own',
    },
    {
      name: 'MCP: files in the session of the exchange',
      reliance: 'a plain MCP client reads in its session what it made there',
      expected: { made: false, exists: true },
      async see(fleet) {
        const made = await callInMcpSession(fleet, 'file_mkdir', { path: 'notes' });
        const found = await callInMcpSession(fleet, 'file_exists', { path: 'notes' }, made.session);
        return { made: made.result.isError, exists: found.result.structuredContent?.exists };
      },
    },
  ],
};

/** Calls a tool as a client of revision 2025-06-18 does: initialize first, then in the session it was given. */
async function callInMcpSession(fleet, name, args, known) {
  const opened =
    known ??
    (
      await fleet.mcp('initialize', {
        protocolVersion: '2025-06-18',
        capabilities: {},
        clientInfo: { name: 'probe', version: '1' },
      })
    ).headers['mcp-session-id'];
  const headers = { 'mcp-protocol-version': '2025-06-18', ...(opened && { 'mcp-session-id': opened }) };
  return { session: opened, ...(await fleet.mcp('tools/call', { name, arguments: args }, headers)) };
}
