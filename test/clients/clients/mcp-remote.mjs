/** mcp-remote as `mcp-remote.json` starts it for a desktop application; here the official SDK takes the place of the application. */
import { readFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

/** The pictures in a result as a program gets it. */
export const picturesIn = ({ content }) => content.filter(({ type }) => type === 'image').map(({ data }) => data);
const { mcpServers } = JSON.parse(readFileSync(new URL('mcp-remote.json', import.meta.url), 'utf8'));

export async function recipe({ url, key, name, args, signal, onProgress, onTools }) {
  const { command, args: words, env } = mcpServers.toolfleet;
  const transport = new StdioClientTransport({
    command,
    args: words.map((word) => (word.startsWith('http:') ? url : word)),
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      // It keeps credentials of sign-ins there; a run must not see another's.
      MCP_REMOTE_CONFIG_DIR: await mkdtemp(join(tmpdir(), 'mcp-remote-')),
      AUTHORIZATION: env.AUTHORIZATION.replace('tf_...', key),
    },
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    stderr: 'inherit',
  });
  const client = new Client({ name: 'desktop', version: '1.0.0' });
  await client.connect(transport);
  const { tools } = await client.listTools();
  onTools(tools.map((tool) => tool.name));
  const result = await client.callTool({ name, arguments: args }, undefined, { signal, onprogress: onProgress });
  await client.close();
  return result;
}
