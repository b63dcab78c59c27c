/**
 * Every builtin tool through the entry points of a running fleet: each with calls that work and calls that do not, over HTTP and
 * MCP (dangerous ones: refused there, and run for an administrator over NATS), and hostile ones.
 */
import type { ChildProcess } from 'node:child_process';
import { readdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { MANIFEST } from '@toolfleet/builtin-tools';
import { endChild } from '@toolfleet/testing';
import { connect, headers as natsHeaders, type NatsConnection } from 'nats';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startKnownSite, type KnownSite } from '../../fleet/known-site.js';
import { startScriptedModel } from '../../fleet/scripted-model.js';
import { TestFleet } from '../../fleet/test-fleet.js';
import { callsOf, hostileCalls, SEEDED, SESSION } from './calls.js';

/** What a caller learns on any entry point. */
interface Told {
  success: boolean;
  output: unknown;
  /** All a reader sees. */
  text: string;
  code?: string;
}
type EntryPoint = (tool: string, args: object) => Promise<Told>;

let site: KnownSite;
let model: ChildProcess;
let fleet: TestFleet;
let mcp: Client;
let nats: NatsConnection;
/** Administrators: each entry point has its own tenant, so that no answer comes from the other one's cache. */
const keys = { HTTP: '', MCP: '' };

beforeAll(async () => {
  site = await startKnownSite();
  const scripted = await startScriptedModel();
  model = scripted.process;
  fleet = await TestFleet.start({
    together: true,
    services: { gateway: 1, registry: 1, budget: 1, 'builtin-executor': 1 },
    tools: ['calculator', 'file_read', 'fetch_page', 'multi_agent'],
    env: {
      BUILTIN_TOOLSETS: 'compute,files,web,agent',
      EGRESS_ALLOWED_ENDPOINTS: site.origin,
      WEB_SEARCH_PROVIDER: 'local',
      LLM_BASE_URL: scripted.baseUrl,
    },
  });
  keys.HTTP = fleet.adminKey;
  const issued = await fleet.ask({
    path: '/api/v1/keys',
    body: { tenant_id: 'globex', client: 'mcp', roles: ['admin'], tier: 'wide' },
    key: fleet.operatorKey,
  });
  keys.MCP = issued.body.token;
  nats = await connect({ servers: `127.0.0.1:${fleet.nats.port}` });
  mcp = new Client({ name: 'spec', version: '1' });
  const requestInit = { headers: { Authorization: `Bearer ${keys.MCP}` } };
  await mcp.connect(new StreamableHTTPClientTransport(new URL(`${fleet.url()}/mcp`), { requestInit }));
  for (const key of Object.values(keys)) {
    for (const [path, content] of Object.entries(SEEDED)) await inside(key)('file_write', { path, content });
  }
  await plantLinks();
});
afterAll(async () => {
  await mcp?.close();
  await nats?.close();
  await fleet?.stop();
  await endChild(model);
  await site?.stop();
});

/** Links out of the workspaces, as a program on the same volume could make them. */
async function plantLinks(): Promise<void> {
  const root = join(fleet.folder, 'workspaces');
  for (const tenant of await readdir(root)) {
    for (const user of await readdir(join(root, tenant))) {
      for (const workspace of await readdir(join(root, tenant, user))) {
        await symlink('/etc/passwd', join(root, tenant, user, workspace, 'planted-link'));
        await symlink('/etc', join(root, tenant, user, workspace, 'planted-folder'));
      }
    }
  }
}

const entryPoints: Record<'HTTP' | 'MCP', EntryPoint> = {
  HTTP: async (tool, args) => {
    const { body } = await fleet.call(tool, args, { fields: { session_id: SESSION } });
    const text = [body.text, body.error, JSON.stringify(body.details ?? '')].join('\n');
    return { success: body.success === true, output: body.output, text, code: body.code ?? body.metadata?.code };
  },
  MCP: async (tool, args) => {
    const result = await mcp.callTool({
      name: tool,
      arguments: args as Record<string, unknown>,
      _meta: { session_id: SESSION },
    });
    const { code, details } = (result._meta ?? {}) as { code?: string; details?: unknown };
    const text = `${JSON.stringify(result.content)}\n${JSON.stringify(details ?? '')}`;
    return { success: result.isError !== true, output: result.structuredContent, text, ...(code ? { code } : {}) };
  },
};

/** The entry point of internal callers. */
const inside =
  (key: string): EntryPoint =>
  async (name, args) => {
    const headers = natsHeaders();
    headers.set('Authorization', `Bearer ${key}`);
    const message = JSON.stringify({ name, arguments: args, session_id: SESSION });
    const body = (await nats.request('tool.call', message, { timeout: 30_000, headers })).json() as Record<string, any>;
    const text = `${body['text']}\n${body['error']}`;
    return {
      success: body['success'] === true,
      output: body['output'],
      text,
      code: body['code'] ?? body['metadata']?.code,
    };
  };

const TOOLS = MANIFEST.map(({ metadata }) => [metadata.name, metadata.dangerous === true] as const);

it('has calls for every tool of the manifest, and for no other', () => {
  expect(Object.keys(callsOf('')).toSorted()).toEqual(TOOLS.map(([name]) => name).toSorted());
});

describe.each(['HTTP', 'MCP'] as const)('over %s', (name) => {
  it.each(TOOLS)('%s', async (tool, dangerous) => {
    const { good, bad } = callsOf(site.origin)[tool] ?? { good: [], bad: [] };
    expect(good.length * bad.length).toBeGreaterThan(0);
    const entryPoint = entryPoints[name];
    if (dangerous) {
      const refused = await entryPoint(tool, good[0]![0]).catch((error: Error) => ({ text: error.message }));
      expect(refused).not.toMatchObject({ success: true });
      expect(refused.text).toMatch(/Tool not available via direct execution|not found|unknown/i);
    }
    const run = dangerous ? inside(keys[name]) : entryPoint;
    for (const [args, output] of good) {
      const told = await run(tool, args);
      expect(told.success, told.text).toBe(true);
      expect(told.output).toMatchObject(output);
      expect(told.text.trim()).not.toBe('');
    }
    for (const [args, code, text] of bad) {
      const told = await run(tool, args);
      expect(told, JSON.stringify(args)).toMatchObject({ success: false, code });
      expect(told.text).toMatch(text);
    }
  });

  it('lets nothing hostile out, in, or run on, while others calculate', async () => {
    let sums = 0;
    let done = false;
    const others = (async () => {
      for (; !done; sums += 1)
        expect((await entryPoints[name]('calculator', { expression: `${sums}+1` })).success).toBe(true);
    })();
    const told = await Promise.all(
      hostileCalls(site.origin, site.forbidden).map(
        async ([tool, args, code, text]) => [await entryPoints[name](tool, args), tool, args, code, text] as const,
      ),
    );
    done = true;
    await others;
    for (const [answer, tool, args, code, text] of told) {
      const what = `${tool} ${JSON.stringify(args).slice(0, 200)}`;
      expect(answer, `${what}: ${answer.text}`).toMatchObject({ success: false, code });
      expect(answer.text, what).toMatch(text);
      expect(answer.text, what).not.toMatch(/root:|top secret/);
    }
    expect(sums).toBeGreaterThan(0);
  });

  it('reads no page of a batch that it may not read', async () => {
    const urls = [`${site.forbidden}/a`, `${site.origin}/away`, 'http://[::1]/', `${site.origin}/article`];
    const { output } = await entryPoints[name]('crawl_batch', { urls });
    const { results } = output as { results: { success: boolean; code?: string }[] };
    expect(results.map(({ success, code }) => code ?? success)).toEqual([
      'EGRESS_REFUSED',
      'EGRESS_REFUSED',
      'EGRESS_REFUSED',
      true,
    ]);
    expect(site.trespasses()).toBe(0);
  });
});
