/** What services and administrators rely on: metadata, its defaults, and one set of tool settings for every kind of source. */
import { absent, excluding, including, oneOf, present } from '../expectation.mjs';

/** Registers a function endpoint at an upstream with settings; resolves when it is listed or, with `listed: false`, at once. */
async function register(fleet, upstream, settings, { listed = true } = {}) {
  const name = fleet.fresh('reg').replaceAll('-', '_');
  const { status, body, text } = await fleet.http('/api/v1/sources/mcp', {
    body: {
      name,
      url: `${fleet.upstreams[upstream]?.origin ?? upstream}/${name}`,
      func_name: name,
      description: 'Registered by a probe',
      parameters: [{ name: 'text', type: 'string', required: false, description: 'Any text' }],
      ...settings,
    },
  });
  if (status !== 201) throw new Error(`${status} ${body?.error ?? text}`);
  if (listed) {
    await fleet.until(`${name} is listed`, async () => (await fleet.http('/tools/list')).body.includes(name));
  } else {
    await fleet.until(`${name} is known`, async () => (await fleet.http(`/api/v1/tools/${name}`)).status !== 404);
  }
  return name;
}

export default {
  group: 'registry and discovery',
  probes: [
    {
      name: 'metadata of a tool that declares nothing',
      reliance: 'the limits that its calls have',
      expected: {
        version: '1.0.0',
        timeout_seconds: 15,
        memory_limit_mb: 512,
        rate_limit: 60,
        cost_per_use: 0,
        dangerous: false,
        requires_auth: false,
        sandboxed: false,
        session_aware: false,
      },
      see: async (fleet) => (await fleet.http('/tools/probe_default/metadata')).body,
      needs: 'own',
    },
    {
      name: 'GET /tools/list, with a category',
      reliance: 'names of all tools, or of one category',
      expected: { all: including('calculator', 'execute_python'), data: including('calculator', 'json_process') },
      async see(fleet) {
        const all = await fleet.http('/tools/list');
        return { all: all.body, data: (await fleet.http('/tools/list?category=data')).body };
      },
    },
    {
      name: 'GET /tools/{name}/schema',
      reliance: 'name, description and parameters as JSON Schema',
      expected: { name: 'calculator', description: present, parameters: { type: 'object', required: ['expression'] } },
      see: async (fleet) => (await fleet.http('/tools/calculator/schema')).body,
    },
    {
      name: 'GET /tools/categories',
      reliance: 'the categories of the public tools',
      expected: including('code', 'data', 'search'),
      see: async (fleet) => (await fleet.http('/tools/categories')).body,
    },
    {
      name: 'prices of the kinds',
      reliance: 'builtin tools are free, web_search costs 0.004, MCP, OpenAPI and Python tools 0.001 USD',
      expected: {
        calculator: 0,
        web_search: 0.004,
        sample_add: 0.001,
        parcels_getParcel: 0.001,
        execute_python: 0.001,
      },
      async see(fleet) {
        const { body } = await fleet.http('/api/v1/tools');
        return Object.fromEntries(body.map(({ name, cost_per_use: cost }) => [name, cost]));
      },
      needs: 'own',
    },
    {
      name: 'one execution path for all kinds',
      reliance: 'builtin, MCP, function endpoint, OpenAPI and Python tools give results of one shape',
      expected: {
        calculator: true,
        sample_add: true,
        echo_function: true,
        parcels_getParcel: true,
        execute_python: true,
      },
      async see(fleet) {
        const calls = {
          calculator: { expression: '1 + 1' },
          sample_add: { a: 1, b: 2 },
          echo_function: { text: 'hello' },
          parcels_getParcel: { parcel_id: 'P-1001' },
          execute_python: { code: '1 + 1' },
        };
        const shown = Object.entries(calls).map(async ([tool, args]) => {
          const { body } = await fleet.call(tool, args);
          const shape = ['success', 'output', 'text', 'error', 'metadata', 'execution_time_ms', 'usage', 'call_id'];
          return [tool, body.success === true && shape.every((field) => field in body)];
        });
        return Object.fromEntries(await Promise.all(shown));
      },
      needs: 'own',
    },
    {
      name: 'internal callers over NATS',
      reliance: 'lists have no context argument in any schema; dangerous tools can be called where policy allows it',
      expected: { listed: including('calculator', 'execute_python'), leaked: [], dangerous: true },
      async see(fleet) {
        const { body } = await fleet.nats('tool.list', {});
        const hidden = ['project_id', '_model', '_project_id', 'user_id'];
        const written = await fleet.nats('tool.call', {
          name: 'file_write',
          arguments: { path: 'probe.txt', content: 'x' },
          session_id: fleet.fresh('session'),
        });
        return {
          listed: body.map(({ name }) => name),
          leaked: body.filter(({ parameters }) => hidden.some((key) => key in (parameters.properties ?? {}))),
          dangerous: written.body.success,
        };
      },
      needs: 'nats',
    },
    {
      name: 'a name that another source owns',
      reliance: '409 with the advice to set name_prefix',
      expected: { status: 409, body: { code: 'TOOL_NAME_CONFLICT', hint: /name_prefix/ } },
      see: (fleet) =>
        fleet.http('/api/v1/sources/mcp', {
          body: { name: 'calculator', url: `${fleet.upstreams.echo.origin}/x`, func_name: 'x', description: 'x' },
        }),
      needs: 'own',
    },
    {
      name: 'registration by a plain caller',
      reliance: 'refused',
      expected: { status: oneOf(401, 403) },
      see: async (fleet) =>
        fleet.http('/api/v1/sources/mcp', {
          key: await fleet.key('plain'),
          body: { name: 'x', url: 'http://x/', func_name: 'x' },
        }),
    },
    {
      name: 'an unknown setting of a source',
      reliance: '400 that names the field and what was probably meant',
      expected: { status: 400, body: { error: /idempotentt is an unknown key.*idempotent\b/ } },
      see: (fleet) =>
        fleet.http('/api/v1/sources/mcp', {
          body: {
            name: 'typo',
            url: `${fleet.upstreams.echo.origin}/x`,
            func_name: 'x',
            description: 'x',
            idempotentt: true,
          },
        }),
      needs: 'own',
    },
    {
      name: 'an idempotent function endpoint without cache_ttl_seconds',
      reliance: 'results of a remote tool are reused only where that was allowed',
      expected: { from_cache: absent, requests: 2 },
      async see(fleet) {
        const name = await register(fleet, 'echo', { idempotent: true });
        await fleet.call(name, { text: 'same' });
        const again = await fleet.call(name, { text: 'same' });
        return {
          from_cache: again.body.metadata.from_cache,
          requests: fleet.upstreams.echo.requests.filter(({ path }) => path === `/${name}`).length,
        };
      },
      needs: 'own',
    },
    {
      name: 'session_aware of a function endpoint',
      reliance: 'the session is part of the cache key: two sessions do not share a result',
      expected: { session_aware: true, requests: 2 },
      async see(fleet) {
        const name = await register(fleet, 'echo', { session_aware: true, idempotent: true, cache_ttl_seconds: 60 });
        const metadata = (await fleet.http(`/tools/${name}/metadata`)).body;
        for (const session of ['a', 'b', 'a']) {
          await fleet.call(name, { text: 'same' }, { fields: { session_id: session } });
        }
        return {
          session_aware: metadata.session_aware,
          requests: fleet.upstreams.echo.requests.filter(({ path }) => path === `/${name}`).length,
        };
      },
      needs: 'own',
    },
    {
      name: 'overrides of an MCP server by name pattern',
      reliance: 'a pattern declares single tools of a server dangerous or idempotent',
      expected: { note: 403, list: excluding('again_save_note'), idempotent: true },
      async see(fleet) {
        const { status, text } = await fleet.http('/api/v1/sources/mcp', {
          body: {
            name: 'again',
            url: `${fleet.samples.SAMPLE_MCP_URL}/mcp`,
            overrides: { '*save*': { dangerous: true }, again_add: { idempotent: true } },
          },
        });
        if (status !== 201) throw new Error(`${status} ${text}`);
        await fleet.until('it is listed', async () => (await fleet.http('/tools/list')).body.includes('again_add'));
        return {
          note: (await fleet.call('again_save_note', { text: 'x' })).status,
          list: (await fleet.http('/tools/list')).body,
          idempotent: (await fleet.http('/tools/again_add/metadata')).body.idempotent,
        };
      },
      needs: 'own',
    },
    {
      name: 'an undeclared MCP tool of an untrusted server',
      reliance: 'hints of an untrusted server and names decide nothing: it is not idempotent',
      expected: { idempotent: false },
      see: async (fleet) => (await fleet.http('/tools/sample_add/metadata')).body,
      needs: 'own',
    },
    {
      name: 'plugins: one file, listed and called',
      reliance: 'a tool is one file with name, description, category, schema and handler',
      expected: { category: 'custom', success: true, source: { kind: 'plugin' } },
      async see(fleet) {
        const { body } = await fleet.http('/tools/probe_default/metadata');
        return { ...body, success: (await fleet.call('probe_default', {})).body.success };
      },
      needs: 'own',
    },
    {
      name: 'helpers for authors: fail()',
      reliance: 'a plugin returns a failure without throwing',
      expected: { success: false, error: 'declined by the author' },
      see: async (fleet) => (await fleet.call('probe_fails', {})).body,
      needs: 'own',
    },
  ],
};
