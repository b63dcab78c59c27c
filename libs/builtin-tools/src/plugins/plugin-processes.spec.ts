import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { JsonObject } from '@toolfleet/contracts';
import { SystemClock } from '@toolfleet/resilience';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { runTool, type RunOptions } from '../../spec/run-tool.fixture.js';
import type { BuiltinTool, ToolServices } from '../builtin-tool.js';
import { PluginProcesses } from './plugin-processes.js';

const TOOLS = `
const tool = ({ defineTool }, name, handler, more = {}) => defineTool({ name, description: 'd', category: 'c', inputSchema: { type: 'object' }, handler, ...more });
export default (api) => [
  tool(api, 'loop', () => { for (;;); }),
  tool(api, 'deaf', () => new Promise((resolve) => setInterval(() => {}, 1000))),
  tool(api, 'polite', (_args, run) => new Promise((_resolve, reject) => run.signal.addEventListener('abort', () => reject(run.signal.reason)))),
  tool(api, 'pid', () => api.ok(process.pid, '')),
  tool(api, 'hungry', () => { const all = []; for (;;) all.push({ n: Math.random() }); }),
  tool(api, 'leave', () => process.exit(0)),
  tool(api, 'environment', () => api.ok({ ...process.env }, '')),
  tool(api, 'refuse', () => { throw new api.ToolError('TOOL_ERROR', { message: 'no', details: { why: 'so' }, retryAfterMs: 7 }); }),
  tool(api, 'partial', () => api.fail('no', { output: { done: 1 } })),
  tool(api, 'broken', () => null.x),
  tool(api, 'report', async (_args, run) => { run.progress({ message: 'half' }); return api.ok(run.context, 'text'); }, { contextKeys: ['session_id'] }),
  tool(api, 'write', async (_args, run) => {
    const workspace = run.workspaces.of(run);
    await workspace.write('a.txt', Buffer.from('text'), 'overwrite');
    return api.ok(String(await workspace.read('a.txt')), '');
  }, { needs: ['workspaces'] }),
  tool(api, 'lost', (_args, run) => run.workspaces.of(run).read('missing'), { needs: ['workspaces'] }),
];`;

let folder: string;
let tools: ReadonlyMap<string, BuiltinTool>;
let processes: PluginProcesses;
const environment = { HOME: '/tmp', SHOWN: 'yes' };
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'toolfleet-plugin-processes-'));
  await writeFile(join(folder, 'all.tool.mjs'), TOOLS);
});
afterAll(() => rm(folder, { recursive: true, force: true }));
beforeEach(async () => {
  processes = new PluginProcesses(new SystemClock(), { size: 3, heapMb: 64, environment: () => environment });
  const found = await processes.tools(pathToFileURL(join(folder, 'all.tool.mjs')).href);
  tools = new Map(found.map((tool) => [tool.metadata.name, tool]));
});
afterEach(() => processes.close());

const run = (name: string, tenant = 'acme', options: RunOptions = {}) =>
  runTool(tools.get(name)!, {}, { ...options, context: { tenant_id: tenant, ...options.context } });
const errorOf = (pending: Promise<unknown>) =>
  pending.then(
    () => undefined,
    (error: unknown) => error,
  );

describe('a plugin that does not end', () => {
  it.each(['loop', 'deaf'])('is killed at its time limit, while others go on (%s)', async (name) => {
    const { output: loud } = await run('pid', 'loud');
    const { output: pid } = await run('pid', 'quiet');
    const endless = errorOf(run(name, 'loud', { timeoutMs: 500 }));
    expect(await endless).toMatchObject({ code: 'DEADLINE_EXCEEDED' });
    const running = () => [...processes['children']].map((child) => child.process.pid);
    await expect.poll(running).not.toContain(loud);
    // The process of another tenant is the one that it was.
    expect((await run('pid', 'quiet')).output).toBe(pid);
    expect((await run('pid', 'loud')).output).not.toBe(loud);
  });

  it('takes one tenant as many processes as it may have, and leaves one for the others', async () => {
    const flood = Array.from({ length: 6 }, () => errorOf(run('loop', 'loud', { timeoutMs: 2_000 })));
    const { output } = await run('pid', 'quiet');
    expect(output).toBeTypeOf('number');
    await Promise.all(flood);
  });

  it('gives calls of the same tenant that have not begun another process', async () => {
    const { output: loud } = await run('pid', 'loud');
    const endless = errorOf(run('loop', 'loud', { timeoutMs: 3_000 }));
    const begun = () =>
      [...processes['children']].flatMap(({ jobs }) => [...jobs.values()]).some((job) => job.hasBegun);
    await expect.poll(begun).toBe(true);
    const calls = await Promise.all([run('pid', 'loud'), run('pid', 'loud')]);
    expect(await endless).toMatchObject({ code: 'DEADLINE_EXCEEDED' });
    expect(new Set(calls.map(({ output }) => output)).has(loud)).toBe(false);
  });

  it('pauses longer each time before it starts again', async () => {
    const pauses: number[] = [];
    for (let time = 0; time < 3; time += 1) {
      expect(await errorOf(run('leave', 'loud'))).toMatchObject({ code: 'OUTCOME_UNKNOWN' });
      pauses.push(processes['pauses'].get('loud')!.ms);
    }
    expect(pauses).toEqual([250, 500, 1_000]);
    expect(processes['pauses'].has('quiet')).toBe(false);
    expect((await run('pid', 'loud')).output).toBeTypeOf('number');
    expect(processes['pauses'].has('loud')).toBe(false);
  });
});

it('keeps the process of a handler that ends when its signal is aborted', async () => {
  const { output: pid } = await run('pid');
  expect(await errorOf(run('polite', 'acme', { timeoutMs: 300 }))).toMatchObject({ code: 'DEADLINE_EXCEEDED' });
  await expect.poll(() => [...processes['children']].every(({ jobs }) => jobs.size === 0)).toBe(true);
  expect((await run('pid')).output).toBe(pid);
});

it('ends a handler that takes more memory than it may', async () => {
  expect(await errorOf(run('hungry'))).toMatchObject({ code: 'MEMORY_EXCEEDED' });
});

it('gives a plugin the environment it is given, and no other', async () => {
  expect((await run('environment')).output).toEqual(environment);
});

it('passes on what a handler returns, throws and reports', async () => {
  expect(await errorOf(run('refuse'))).toMatchObject({
    code: 'TOOL_ERROR',
    message: 'no',
    details: { why: 'so' },
    retryAfterMs: 7,
  });
  expect(await run('partial')).toMatchObject({ output: { done: 1 }, failure: { code: 'TOOL_ERROR', message: 'no' } });
  expect(await errorOf(run('broken'))).toMatchObject({ stack: expect.stringContaining('all.tool.mjs') });
  const reports: JsonObject[] = [];
  const progress = (report: object) => void reports.push({ ...report });
  const { output, text } = await run('report', 'acme', { progress, context: { session_id: 's' } });
  expect([output, text]).toEqual([{ tenant_id: 'acme', session_id: 's' }, 'text']);
  expect(reports).toEqual([{ message: 'half' }]);
});

it('has the services that it needs, with their errors, and no others', async () => {
  const files = new Map<string, Uint8Array>();
  const workspace = {
    write: async (path: string, bytes: Uint8Array) => void files.set(path, bytes),
    read: async (path: string) => files.get(path) ?? Promise.reject(new Error(`no ${path}`)),
  };
  const services = { workspaces: { of: () => workspace } } as object as ToolServices;
  expect((await run('write', 'acme', { services })).output).toBe('text');
  expect(await errorOf(run('lost', 'acme', { services }))).toMatchObject({ message: 'Error: no missing' });
});
