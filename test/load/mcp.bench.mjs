/**
 * Latency that a fleet adds to each method of MCP: the sample server directly and through a fleet, one request at a time, alternating in
 * one run. Prints medians in ms; compare ratios within one run only.
 */
import { fork } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import { freePort } from '../../tools/local/child-process.mjs';
import { withFleet } from './with-fleet.mjs';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 300);
const WARM_UP = 50;
const NEVER = 1_000_000;
const PREFIX = 'io.modelcontextprotocol/';
const REVISIONS = ['2026-07-28', '2025-11-25'];

/** Methods with their parameters, at the server and through the fleet. `at` is the address of a resource there. */
const METHODS = {
  'tools/call': ({ name }, n) => ({ name: name('add'), arguments: { a: n, b: 1 } }),
  'prompts/get': ({ name }) => ({ name: name('describe_dot'), arguments: { style: 'poet' } }),
  'resources/read': ({ at }) => ({ uri: at('sample://dot.txt') }),
  'completion/complete': ({ name }) => ({
    ref: { type: 'ref/prompt', name: name('describe_dot') },
    argument: { name: 'style', value: 'p' },
  }),
  'skills/get': ({ at }) => ({ uri: at('skill://dot-description/SKILL.md') }),
  'tools/list': () => ({}),
  'prompts/list': () => ({}),
  'resources/list': () => ({}),
  'resources/templates/list': () => ({}),
  'skills/list': () => ({}),
};

/** @param {string} root of the repository */
export async function mcpBench(root) {
  const port = await freePort();
  const dir = mkdtempSync(join(tmpdir(), 'toolfleet-mcp-bench-'));
  const config = join(dir, 'mcp.json');
  const origin = `http://127.0.0.1:${port}`;
  writeFileSync(config, JSON.stringify({ mcp_servers: { sample: { url: `${origin}/mcp`, rate_limit: NEVER } } }));
  const server = fork(join(root, 'tools/samples/dist/mcp-server.js'), {
    env: { ...process.env, SAMPLE_MCP_PORT: port },
  });
  try {
    const env = { EGRESS_ALLOWED_ENDPOINTS: origin };
    return await withFleet(root, (fleet) => compare(fleet, origin), { env, config });
  } finally {
    server.kill();
    rmSync(dir, { recursive: true, force: true });
  }
}

async function compare(fleet, origin) {
  const same = (text) => text;
  const direct = { pool: new Pool(origin, { connections: 1 }), headers: {}, name: same, at: same };
  const authorization = `Bearer ${fleet.api_key}`;
  const pool = new Pool(fleet.url, { connections: 1 });
  const through = { pool, headers: { authorization }, name: (name) => `sample_${name}`, at: same };
  const listed = async () => (await send(through, REVISIONS[0], 'resources/list', {})).result.resources;
  while ((await listed()).length === 0) await sleep(200);
  const [{ uri }] = await listed();
  const authority = /:\/\/(mcp-[0-9a-f]{16})\//.exec(uri)[1];
  through.at = (address) => address.replace('://', `://${authority}/`);
  const methods = {};
  for (const [method, paramsOf] of Object.entries(METHODS)) {
    for (const revision of REVISIONS) {
      const took = { direct: [], through: [] };
      for (let n = 0; n < WARM_UP + ROUNDS; n += 1) {
        for (const [kind, peer] of Object.entries({ direct, through })) {
          const from = performance.now();
          await send(peer, revision, method, paramsOf(peer, n));
          if (n >= WARM_UP) took[kind].push(performance.now() - from);
        }
      }
      const [alone, fleetMs] = [median(took.direct), median(took.through)];
      methods[`${method} ${revision}`] = {
        direct_ms: round(alone),
        fleet_ms: round(fleetMs),
        added_ms: round(fleetMs - alone),
        ratio: round(fleetMs / alone),
      };
    }
  }
  await Promise.all([direct.pool.close(), through.pool.close()]);
  return { name: 'mcp', methods };
}

/** One request; throws for an error of the protocol or a failed tool. */
async function send({ pool, headers }, revision, method, params) {
  const isModern = revision === REVISIONS[0];
  const _meta = { [`${PREFIX}protocolVersion`]: revision, [`${PREFIX}clientCapabilities`]: {} };
  const named = params.name ?? params.uri;
  const { statusCode, body } = await pool.request({
    path: '/mcp',
    method: 'POST',
    headers: {
      ...headers,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': revision,
      ...(isModern && { 'mcp-method': method, ...(named && { 'mcp-name': named }) }),
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: isModern ? { ...params, _meta } : params }),
  });
  const text = await body.text();
  const answer = JSON.parse(/^data: (.+)$/m.exec(text)?.[1] ?? text);
  if (statusCode !== 200 || answer.error || answer.result.isError) throw new Error(`${method}: ${text.slice(0, 300)}`);
  return answer;
}

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
const round = (value) => Number(value.toFixed(2));
