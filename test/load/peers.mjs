/** MCP proxies of npm in front of the echo server, each in its own process, as other ways to the same tool. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../../tools/local/child-process.mjs';
import { installLocked } from '../../tools/local/install-locked.mjs';

const START_WITHIN_MS = 30_000;
const JSON_HEADERS = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
const REVISION = '2025-11-25';

/**
 * How each peer is started and asked for `say`. `mcp-hub` has its own REST API and speaks MCP over the old SSE transport only.
 * @type {Record<string, {bin: string, args: (at: {port: number, echo: string, dir: string}) => string[], rest?: boolean}>}
 */
const PEERS = {
  'mcp-proxy': {
    bin: 'mcp-proxy',
    args: ({ port, echo }) => [
      '--host',
      '127.0.0.1',
      '--port',
      `${port}`,
      '--server',
      'stream',
      '--',
      process.execPath,
      echo,
      'stdio',
    ],
  },
  supergateway: {
    bin: 'supergateway',
    args: ({ port, echo }) => [
      ...['--stdio', `'${process.execPath}' '${echo}' stdio`, '--outputTransport', 'streamableHttp', '--stateful'],
      ...['--port', `${port}`, '--logLevel', 'none'],
    ],
  },
  'mcp-hub': {
    bin: 'mcp-hub',
    rest: true,
    args: ({ port, echo, dir }) => {
      const config = join(dir, 'mcp-hub.json');
      writeFileSync(
        config,
        JSON.stringify({ mcpServers: { echo: { command: process.execPath, args: [echo, 'stdio'] } } }),
      );
      return ['--port', `${port}`, '--config', config];
    },
  },
};

/**
 * Installs and starts the peers.
 * @param {string} root of the repository
 * @returns {Promise<{peers: Record<string, {pid: number, url: string, headers: Record<string, string>,
 *   bodyOf: (n: number) => unknown}>, stop: () => void}>}
 */
export async function startPeers(root) {
  const folder = join(root, 'test/load/peers');
  await installLocked(folder, 'installing the MCP proxies as locked');
  const dir = mkdtempSync(join(tmpdir(), 'toolfleet-peers-'));
  const children = [];
  const stop = () => {
    for (const { pid } of children) process.kill(-pid, 'SIGKILL');
    rmSync(dir, { recursive: true, force: true });
  };
  try {
    const peers = {};
    for (const [name, { bin, args, rest }] of Object.entries(PEERS)) {
      const at = { port: await freePort(), echo: join(root, 'test/load/echo-upstream.mjs'), dir };
      const command = [join(folder, 'node_modules/.bin', bin), ...args(at)];
      // The files of each peer's state go below the temporary folder; a group of its own includes the echo server.
      const env = { ...process.env, HOME: dir, XDG_STATE_HOME: dir, XDG_DATA_HOME: dir, XDG_CONFIG_HOME: dir };
      const child = spawn(process.execPath, command, { stdio: 'ignore', detached: true, env });
      children.push(child);
      const url = `http://127.0.0.1:${at.port}`;
      peers[name] = { pid: child.pid, ...(await untilAnswers(name, () => (rest ? restApi(url) : mcpSession(url)))) };
    }
    return { peers, stop };
  } catch (error) {
    stop();
    throw error;
  }
}

async function untilAnswers(name, open) {
  for (const until = Date.now() + START_WITHIN_MS; ; await sleep(100)) {
    try {
      return await open();
    } catch (error) {
      if (Date.now() > until) throw new Error(`${name} does not answer: ${error.message}`, { cause: error });
    }
  }
}

/** A session, as every client of these servers has one. */
async function mcpSession(origin) {
  const url = `${origin}/mcp`;
  const send = async (headers, message) => {
    const body = JSON.stringify({ jsonrpc: '2.0', ...message });
    const answer = await fetch(url, { method: 'POST', headers, body });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${answer.status} ${text.slice(0, 200)}`);
    return answer;
  };
  const params = { protocolVersion: REVISION, capabilities: {}, clientInfo: { name: 'bench', version: '1' } };
  const opened = await send(JSON_HEADERS, { id: 0, method: 'initialize', params });
  const session = opened.headers.get('mcp-session-id');
  const headers = {
    ...JSON_HEADERS,
    'mcp-protocol-version': REVISION,
    ...(session ? { 'mcp-session-id': session } : {}),
  };
  await send(headers, { method: 'notifications/initialized' });
  // Requests of a session that are open at a time need ids of their own.
  const bodyOf = (n) => ({
    jsonrpc: '2.0',
    id: n,
    method: 'tools/call',
    params: { name: 'say', arguments: { text: `call ${n}` } },
  });
  return { url, headers, bodyOf };
}

async function restApi(origin) {
  const url = `${origin}/api/servers/tools`;
  const bodyOf = (n) => ({ server_name: 'echo', tool: 'say', arguments: { text: `call ${n}` } });
  const body = JSON.stringify(bodyOf(0));
  const answer = await fetch(url, { method: 'POST', headers: JSON_HEADERS, body });
  if (!answer.ok) throw new Error(`${answer.status} ${(await answer.text()).slice(0, 200)}`);
  return { url, headers: JSON_HEADERS, bodyOf };
}
