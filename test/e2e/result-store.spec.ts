/** Two gateways that share a result store: a large result of one is read through the other, over HTTP and as an MCP task. */
import { randomUUID } from 'node:crypto';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '@toolfleet/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { TestFleet } from '../fleet/test-fleet.js';

let folder: string;
let fleet: TestFleet;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'toolfleet-results-'));
  fleet = await TestFleet.start({
    services: { gateway: 2, registry: 1, budget: 1, 'builtin-executor': 1 },
    tools: ['text_process'],
    env: { RESULT_STORE: 'directory', RESULT_STORE_DIR: folder, RESULT_STORE_THRESHOLD_KB: '16' },
  });
});
afterAll(async () => {
  await fleet?.stop();
  await rm(folder, { recursive: true, force: true });
});

const objects = async (): Promise<string[]> =>
  (await readdir(folder, { recursive: true })).filter((name) => name.endsWith('.json'));
const args = (word: string) => ({ text: `${word} `.repeat(5_000), operation: 'case', to: 'upper' });

it('replays a call with an idempotency key', async () => {
  const before = await objects();
  const headers = { 'idempotency-key': randomUUID() };
  const first = await fleet.call('text_process', args('one'), { headers });
  expect(first.body.output.text ?? first.text).toContain('ONE ONE');
  expect(await objects()).toHaveLength(before.length + 1);
  const again = await fleet.call('text_process', args('one'), { headers, gateway: 1 });
  expect(again.body).toMatchObject({ output: first.body.output, metadata: { idempotent_replay: true } });
});

it('returns the result of an asynchronous call, also as a task of MCP', async () => {
  const before = await objects();
  const accepted = await fleet.call('text_process', args('two'), { fields: { mode: 'async' } });
  const id: string = accepted.body.call_id;
  await eventually('it has ended', async () => {
    const { body } = await fleet.ask({ path: `/api/v1/calls/${id}`, gateway: 1 });
    return body.status === 'succeeded';
  });
  expect(await objects()).toHaveLength(before.length + 1);
  for (const gateway of [0, 1]) {
    const { body, text } = await fleet.ask({ path: `/api/v1/calls/${id}`, gateway });
    expect(text.length).toBeGreaterThan(20_000);
    expect(JSON.stringify(body.result.output)).toContain('TWO TWO');
    expect((await getTask(id, gateway)).text).toContain('TWO TWO');
  }
});

function getTask(taskId: string, gateway: number) {
  const prefix = 'io.modelcontextprotocol/';
  const _meta = {
    [`${prefix}protocolVersion`]: '2026-07-28',
    [`${prefix}clientInfo`]: { name: 'spec', version: '1' },
    [`${prefix}clientCapabilities`]: { extensions: { [`${prefix}tasks`]: {} } },
  };
  return fleet.ask({
    path: '/mcp',
    gateway,
    body: { jsonrpc: '2.0', id: 1, method: 'tasks/get', params: { taskId, _meta } },
    headers: {
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tasks/get',
      'mcp-name': taskId,
    },
  });
}
