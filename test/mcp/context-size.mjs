/**
 * The text that a model reads about this fleet's tools, and reads and writes for a task, in bytes and in tokens of four bytes: the whole
 * list against code mode, and 50 tool calls against one program. Counts the tools of `tools/list` and the instructions of the server, and
 * for each call its name, its arguments and the text of its result. Larger catalogs are copies of the fleet's own tools under other names.
 * `node test/mcp/context-size.mjs`, after a build.
 */
import { fileURLToPath } from 'node:url';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { withFleet } from '../load/with-fleet.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const CITIES = Array.from({ length: 50 }, (_, n) => `City ${String.fromCodePoint(65 + (n % 26))}${n}`);
const ALL = 'gather(*[tools.get_weather(city=c) for c in inputs])';
const WARMEST = `max(${ALL}, key=lambda w: w["temperature"])`;

const bytes = (value) => Buffer.byteLength(typeof value === 'string' ? value : JSON.stringify(value));
const show = (what, count) => console.log(`${what}: ${count} bytes, ${Math.round(count / 4)} tokens`);

await withFleet(ROOT, async ({ url, api_key: key }) => {
  const connect = async (mode) => {
    const client = new Client({ name: 'context', version: '1' });
    const requestInit = { headers: { Authorization: `Bearer ${key}` } };
    await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp?mode=${mode}`), { requestInit }));
    return client;
  };
  /** Bytes of a call and of the text of its result. */
  const call = async (client, name, args) => {
    const { content, isError } = await client.callTool({ name, arguments: args });
    if (isError) throw new Error(JSON.stringify(content));
    return bytes({ name, arguments: args }) + bytes(content.map(({ text }) => text ?? '').join(''));
  };
  const [list, code] = [await connect('list'), await connect('code')];
  const { tools } = await list.listTools();
  const copies = (count) =>
    Array.from({ length: count }, (_, n) => ({
      ...tools[n % tools.length],
      name: `${tools[n % tools.length].name}_${n}`,
    }));
  for (const some of [tools, copies(535), copies(1_000)])
    show(`list of ${some.length} tools`, bytes(some) + bytes(list.getInstructions()));
  const start = bytes((await code.listTools()).tools) + bytes(code.getInstructions());
  show('list in code mode, of any number of tools', start);

  const search = await call(code, 'search_tools', { query: 'weather in a city' });
  const stub = await call(code, 'describe_tools', { names: ['get_weather'] });
  const program = await call(code, 'run_program', { code: WARMEST, inputs: CITIES });
  let single = 0;
  for (const city of CITIES) single += await call(list, 'get_weather', { city });
  show('search_tools', search);
  show('describe_tools', stub);
  show(`${CITIES.length} calls of a tool`, single);
  show('one program that returns all their results', await call(code, 'run_program', { code: ALL, inputs: CITIES }));
  show('one program that returns what was asked for', program);
  show('code mode from the list to the answer', start + search + stub + program);
  await Promise.all([list.close(), code.close()]);
});
