import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { CallRequest, JsonObject } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { PolicyRequest } from '@toolfleet/engine';
import type { PolicyInput } from '@toolfleet/policy';
import { SystemClock } from '@toolfleet/resilience';
import { ServiceFaults } from '@toolfleet/service';
import { createLogger, createMetrics } from '@toolfleet/telemetry';
import { FakeClock } from '@toolfleet/testing';
import { policyInput, policyComponent } from './engine-policy.js';
import { OpaSidecar } from './opa-sidecar.js';

function question(tool: string, roles: string[], args: JsonObject = {}): PolicyRequest {
  const request = {
    callId: 'c1',
    principal: { tenantId: 'acme', userId: 'ann', roles, tools: ['*'], via: 'api_key' },
    origin: 'internal',
    entryPoint: 'nats',
    context: { session_id: 's1', project_id: 'p1' },
    target: { toolName: tool },
    mode: { kind: 'dry' },
  } as unknown as CallRequest;
  const binding = { kind: 'builtin' };
  const definition = {
    name: tool,
    category: 'file',
    tags: ['fs'],
    dangerous: true,
    binding,
  } as unknown as RegisteredTool;
  return { call: { request } as PolicyRequest['call'], tool: definition, arguments: args };
}

const host = (clock = new FakeClock()) => ({
  clock,
  faults: new ServiceFaults(clock),
  logger: createLogger({ service: 'spec', level: 'silent' } as never),
  metrics: createMetrics({ version: '0', revision: '0' }),
});

describe('policy of the gateway', () => {
  it('gives rules exactly the documented input', () => {
    expect(policyInput(question('file_write', ['dev'], { path: 'a' }))).toEqual({
      tool: 'file_write',
      action: 'tools/call',
      user: { id: 'ann', tenant: 'acme', roles: ['dev'], via: 'api_key' },
      arguments: { path: 'a' },
      origin: 'internal',
      entry_point: 'nats',
      session_id: 's1',
      category: 'file',
      tags: ['fs'],
      dangerous: true,
      dry_run: true,
    });
  });

  it.each([
    ['prompts/get', { arguments: { style: 'poet' } }, 'prompts/get'],
    ['resources/read', { uri: 'docs://a' }, 'resources/read'],
    ['resources/read', { uri: 'docs://{id}', argument: { name: 'id', value: '' } }, 'completion/complete'],
  ] as [string, JsonObject, string][])('names the action of %s with %j', (method, args, action) => {
    const asked = question('resource:docs', [], args);
    const binding = { kind: 'mcp', method } as unknown as RegisteredTool['binding'];
    expect(policyInput({ ...asked, tool: { ...asked.tool, binding } }).action).toBe(action);
  });

  it('loads the shipped rules, denies by them and counts it', async () => {
    const given = host();
    const { policy, component } = policyComponent({}, given);
    expect(await component.ready?.()).toBe(false);
    await component.start?.();
    expect(await component.ready?.()).toBe(true);
    expect(policy.decide(question('file_write', ['dev']))).toEqual({
      allowed: false,
      reasons: ['file_write requires admin role'],
      rules: ['tools.rego:6'],
    });
    expect(policy.decide(question('file_write', ['admin']))).toEqual({ allowed: true });
    expect(await given.metrics.registry.metrics()).toContain(
      'toolfleet_policy_denied_total{rule="file_write requires admin role"} 1',
    );
    await component.stop?.();
    expect(given.clock.pending).toBe(0);
  });

  it('refuses to start with invalid policies, and allows nothing', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'toolfleet-policy-'));
    await writeFile(join(folder, 'tools.rego'), 'package tools\ndeny { }');
    const { policy, component } = policyComponent({ POLICY_DIR: folder }, host());
    await expect(component.start?.()).rejects.toMatchObject({
      startRefused: true,
      message: expect.stringContaining('tools.rego:2:6'),
    });
    expect(await component.ready?.()).toBe(false);
    expect(policy.decide(question('calculator', ['admin']))).toEqual({
      allowed: false,
      reasons: ['no policy is loaded'],
    });
    await component.stop?.();
    await rm(folder, { recursive: true });
  });
});

/** A fake of OPA's data API: what a real server answers to a partial set is a JSON array under `result`. */
describe('OPA sidecar', () => {
  let server: Server;
  let url: string;
  let answer: (input: PolicyInput) => { status?: number; body: string } | undefined;
  /** What the rules that ask say; a policy without them has no result. */
  let asked: { status?: number; body: string } = { body: '{}' };
  const seen: { method?: string; path?: string; input: PolicyInput }[] = [];
  const open: OpaSidecar[] = [];

  beforeAll(async () => {
    server = createServer((request, response) => {
      let text = '';
      request.on('data', (chunk) => (text += String(chunk)));
      request.on('end', () => {
        if (request.url === '/health') return void response.end('{}');
        const { input } = JSON.parse(text) as { input: PolicyInput };
        seen.push({ method: request.method, path: request.url, input });
        const given = request.url?.endsWith('/ask') ? asked : answer(input);
        if (given) response.writeHead(given.status ?? 200, { 'content-type': 'application/json' }).end(given.body);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterEach(async () => {
    asked = { body: '{}' };
    await Promise.all(open.splice(0).map((sidecar) => sidecar.close()));
  });
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });

  const sidecar = (base = url, timeoutMs = 2_000) => {
    const made = new OpaSidecar({ url: base, timeoutMs }, new SystemClock());
    open.push(made);
    return made;
  };
  const input = policyInput(question('file_write', ['dev'], { path: 'a' }));

  it('reads data.tools.deny and returns its messages', async () => {
    answer = ({ tool }) => ({ body: JSON.stringify({ result: [`${tool} is closed`] }) });
    expect(await sidecar().decide(input)).toEqual({ deny: ['file_write is closed'] });
    expect(seen).toContainEqual({ method: 'POST', path: '/v1/data/tools/deny', input });
    expect(seen).toContainEqual({ method: 'POST', path: '/v1/data/tools/ask', input });
    answer = () => ({ body: '{"result": []}' });
    expect(await sidecar(`${url}/`).decide(input)).toEqual({ deny: [] });
  });

  it('reads data.tools.ask, which may be absent and denies on errors', async () => {
    answer = () => ({ body: '{"result": []}' });
    asked = { body: '{"result": ["Really?"]}' };
    expect(await sidecar().decide(input)).toEqual({ deny: [], ask: ['Really?'] });
    asked = { status: 500, body: '{}' };
    expect((await sidecar().decide(input)).deny).toEqual([expect.stringContaining('OPA answered 500')]);
    answer = () => ({ body: '{"result": ["no"]}' });
    asked = { body: '{"result": ["Really?"]}' };
    expect(await sidecar().decide(input)).toEqual({ deny: ['no'] });
  });

  it.each<[string, { status?: number; body: string } | undefined]>([
    ['no such rule', { body: '{}' }],
    ['another shape', { body: '{"result": true}' }],
    ['no JSON', { body: '<html>' }],
    ['an error', { status: 500, body: '{"result": []}' }],
    ['a redirect', { status: 302, body: '{"result": []}' }],
    ['an answer without end', { body: `{"result": [${'"x",'.repeat(200_000)}"x"]}` }],
    ['silence', undefined],
  ])('denies on %s', async (_, given) => {
    answer = () => given;
    const { deny } = await sidecar(url, 300).decide(input);
    expect(deny).toEqual([expect.stringContaining('the policy could not be evaluated: OPA')]);
  });

  it('denies, and is not ready, when the server is down', async () => {
    const nobody = sidecar('http://127.0.0.1:9', 300);
    expect(await nobody.decide(input)).toEqual({ deny: ['the policy could not be evaluated: OPA did not answer'] });
    expect(await nobody.reachable()).toBe(false);
    expect(await sidecar().reachable()).toBe(true);
  });

  it('decides for the gateway when OPA_URL is set', async () => {
    answer = () => ({ body: '{"result": ["no"]}' });
    const { policy, component } = policyComponent({ OPA_URL: url }, host());
    expect(await component.ready?.()).toBe(true);
    expect(await policy.decide(question('x', []))).toEqual({ allowed: false, reasons: ['no'] });
    await component.stop?.();
  });
});
