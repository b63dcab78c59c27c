/** What models rely on: the builtin tools, their arguments, and how they refuse. */
import { absent, atLeast, excluding, including, present } from '../expectation.mjs';

const output = async (fleet, tool, args) => (await fleet.call(tool, args)).body.output;
const fileTool = async (fleet, name, args, context = {}) =>
  (await fleet.nats('tool.call', { name, arguments: args, ...context })).body;

const FILE_TOOLS = {
  file_read: { path: 'a.txt' },
  file_write: { path: 'a.txt', content: 'x' },
  file_delete: { path: 'a.txt' },
  file_list: { path: '.' },
  file_exists: { path: 'a.txt' },
  file_mkdir: { path: 'a' },
};
/** The error of each file tool. */
const errors = async (fleet, context, path) =>
  Object.fromEntries(
    await Promise.all(
      Object.entries(FILE_TOOLS).map(async ([name, args]) => {
        const body = await fileTool(fleet, name, path ? { ...args, path } : args, context);
        return [name, body.error];
      }),
    ),
  );
const all = (value) => Object.fromEntries(Object.keys(FILE_TOOLS).map((name) => [name, value]));
const agent = (fleet, tasks, options) => fleet.call('multi_agent', { tasks }, options);

export default {
  group: 'builtin tools',
  probes: [
    {
      name: 'the tools of the platform',
      reliance: 'every public builtin tool is listed',
      expected: including(
        'web_search',
        'fetch_page',
        'crawl_batch',
        'calculator',
        'text_process',
        'json_process',
        'execute_python',
        'file_read',
        'file_list',
        'file_exists',
        'file_mkdir',
        'get_weather',
        'multi_agent',
      ),
      see: async (fleet) => (await fleet.http('/tools/list')).body,
    },
    {
      name: 'calculator',
      reliance: 'exact results and errors with a position',
      expected: { sum: '0.3', percent: 220, error: /./ },
      async see(fleet) {
        return {
          sum: (await output(fleet, 'calculator', { expression: '0.1 + 0.2' })).value,
          percent: (await output(fleet, 'calculator', { expression: '200 + 10%' })).result,
          error: (await fleet.call('calculator', { expression: '2 +* 3' })).body.error,
        };
      },
    },
    {
      name: 'json_process and text_process',
      reliance: 'their published operations',
      expected: { format: '{\n  "a": [\n    1\n  ]\n}', words: 2 },
      async see(fleet) {
        const format = await output(fleet, 'json_process', { json_string: '{"a":[1]}', operation: 'format' });
        const count = await output(fleet, 'text_process', { text: 'a b', operation: 'count' });
        return { format: format.result, words: count.words };
      },
    },
    {
      name: 'get_weather',
      reliance: 'simulated data, the same for a city each time, and labeled',
      expected: { same: true, simulated: true, text: /simulated/ },
      async see(fleet) {
        const first = await fleet.call('get_weather', { city: 'Lisbon' });
        const again = await fleet.call('get_weather', { city: 'Lisbon' });
        return {
          same: JSON.stringify(first.body.output) === JSON.stringify(again.body.output),
          simulated: first.body.output.simulated,
          text: first.body.text,
        };
      },
    },
    {
      name: 'web_search max_results',
      reliance: '10 unless given; a number it cannot serve is refused, not clamped',
      expected: { usual: 10, two: 2, thousand: 400, zero: 400 },
      async see(fleet) {
        const search = (args) => fleet.call('web_search', { query: fleet.fresh(), ...args });
        const usual = await search({});
        const two = await search({ max_results: 2 });
        const [thousand, zero] = [await search({ max_results: 1_000 }), await search({ max_results: 0 })];
        return {
          usual: usual.body.output.results.length,
          two: two.body.output.results.length,
          thousand: thousand.status,
          zero: zero.status,
        };
      },
      needs: 'own',
    },
    {
      name: 'crawl_batch with eleven pages',
      reliance: 'at most ten',
      expected: { status: 400, body: { code: 'ARGUMENTS_INVALID' } },
      see: (fleet) =>
        fleet.call('crawl_batch', { urls: Array.from({ length: 11 }, (_item, index) => `https://e${index}.example/`) }),
    },
    {
      name: 'fetch_page of an address inside the network',
      reliance: 'no local or metadata address can be reached',
      expected: { metadata: 'EGRESS_REFUSED', loopback: 'EGRESS_REFUSED' },
      async see(fleet) {
        const code = async (url) => (await fleet.call('fetch_page', { url })).body.metadata?.code;
        return { metadata: await code('https://169.254.169.254/latest'), loopback: await code('https://127.0.0.1/') };
      },
    },
    {
      name: 'files without a project',
      reliance: '"project_id is required for file operations" in all six tools, and how to give one',
      expected: all(
        'project_id is required for file operations: send session_id with the call, or name a project with the header ' +
          'X-Project-Id or a credential that has one',
      ),
      see: (fleet) => errors(fleet, {}),
      needs: 'nats',
    },
    {
      name: 'files of an unknown project',
      reliance: '"Project not found: <id>" in all six tools, and nothing is created',
      expected: all('Project not found: no-such-project'),
      see: (fleet) => errors(fleet, { project_id: 'no-such-project' }),
      needs: 'nats',
    },
    {
      name: 'paths outside the project',
      reliance: '"Path is outside project directory" for .. and absolute paths in all six tools',
      expected: {
        parent: all('Path is outside project directory'),
        absolute: all('Path is outside project directory'),
      },
      async see(fleet) {
        const context = { session_id: fleet.fresh('session') };
        await fileTool(fleet, 'file_write', { path: 'a.txt', content: 'x' }, context);
        return {
          parent: await errors(fleet, context, '../../../etc/passwd'),
          absolute: await errors(fleet, context, '/etc/passwd'),
        };
      },
      needs: 'nats',
    },
    {
      name: 'files of a session',
      reliance: 'what is written below src/ can be read, listed, found and deleted',
      expected: {
        written: true,
        read: 'print(1)',
        listed: including('src/main.py'),
        exists: true,
        deleted: true,
        gone: false,
      },
      async see(fleet) {
        const context = { session_id: fleet.fresh('session') };
        const use = (name, args) => fileTool(fleet, name, args, context);
        const path = 'src/main.py';
        const written = await use('file_write', { path, content: 'print(1)' });
        const read = await use('file_read', { path });
        const list = await use('file_list', { path: 'src' });
        const exists = await use('file_exists', { path });
        const deleted = await use('file_delete', { path });
        return {
          written: written.success,
          read: read.output.content,
          listed: list.output.entries.map((entry) => entry.path),
          exists: exists.output.exists,
          deleted: deleted.success,
          gone: (await use('file_exists', { path })).output.exists,
        };
      },
      needs: 'nats',
    },
    {
      name: 'context in schemas',
      reliance: 'no tool shows project_id, user_id or a model as an argument',
      expected: [],
      async see(fleet) {
        const { body } = await fleet.http('/api/v1/tools');
        const hidden = ['project_id', 'user_id', '_model', '_project_id'];
        return body
          .filter(({ parameters }) => hidden.some((key) => key in parameters.properties))
          .map(({ name }) => name);
      },
    },
    {
      name: 'the model of an agent',
      reliance: 'its tokens are usage of the call',
      expected: { usage: { tokens: atLeast(1) }, metadata: { llm_tokens: atLeast(1) }, error: null, project: absent },
      see: async (fleet) => (await agent(fleet, [{ name: 'one', instruction: 'SAY hi', tools: [] }])).body,
      needs: 'own',
    },
    {
      name: 'the public list of file tools',
      reliance: 'readers are public, writers are not',
      expected: {
        readers: including('file_read', 'file_list'),
        writers: excluding('file_write', 'file_delete', 'file_edit'),
      },
      async see(fleet) {
        const { body } = await fleet.http('/tools/list?category=file');
        return { readers: body, writers: body };
      },
    },
    {
      name: 'the published schema of web_search',
      reliance: 'query and max_results with their descriptions',
      expected: { query: { type: 'string', description: present }, max_results: { default: 10, type: 'integer' } },
      see: async (fleet) => (await fleet.http('/tools/web_search/schema')).body.parameters.properties,
    },
  ],
};
