import 'reflect-metadata';
import { EventEmitter } from 'node:events';
import type { CallRequest, CallResult } from '@toolfleet/contracts';
import { FakeClock } from '@toolfleet/testing';
import type { FastifyReply } from 'fastify';
import { beforeEach, describe, expect, it } from 'vitest';
import { BatchedCalls, type ToolCalls } from '../calls/tool-calls.js';
import type { ToolList, ToolSearch } from '@toolfleet/catalog';
import { HttpCalls, type HttpRequest } from './http-call.js';
import { ShannonController } from './shannon.controller.js';
import { ToolsController } from './tools.controller.js';

const clock = new FakeClock();
const ran: CallRequest[] = [];
const executeCall = async (request: CallRequest): Promise<CallResult> => {
  ran.push(request);
  return {
    ok: true,
    output: null,
    text: '',
    provenance: 'live',
    usage: { tokens: 0, microUsd: 0 },
    metadata: {},
    timing: { queue_ms: 0, wait_ms: 0, execute_ms: 0 },
    attempts: 1,
  };
};
const nothing = {} as ToolList & ToolCalls & ToolSearch;
const counted: number[] = [];
const limits = { countBatch: async (_caller: unknown, calls: number) => void counted.push(calls) };
const batches = new BatchedCalls(executeCall, 5, clock, limits);
const http = new HttpCalls(clock, 120_000);
const tools = new ToolsController(nothing, nothing, batches, http, nothing);
const native = {
  batch: (body: unknown, sent: HttpRequest, to: FastifyReply) => tools.batch({ path: {}, query: {}, body }, sent, to),
};
const shannon = new ShannonController(nothing, nothing, batches, nothing, http);

const request = (headers: Record<string, string> = {}) =>
  ({
    headers,
    principal: { tenantId: 'acme', userId: 'ann', roles: [], tools: ['*'], via: 'api_key' },
  }) as unknown as HttpRequest;
const reply = { raw: new EventEmitter() } as unknown as FastifyReply;
const item = (n: number, more: object = {}) => ({ name: 'adder', arguments: { n }, ...more });

beforeEach(() => void ran.splice(0));

describe('a batch', () => {
  it('gives each call its own idempotency key, else that of the batch with its position', async () => {
    await native.batch([item(1), item(2, { idempotency_key: 'own' })], request({ 'idempotency-key': 'k' }), reply);
    await native.batch({ calls: [item(3)], idempotency_key: 'b' }, request(), reply);
    await native.batch([item(4)], request(), reply);
    expect(ran.map(({ reuse }) => reuse.idempotencyKey)).toEqual(['k#0', 'own', 'b#0', undefined]);
  });

  it('reads Cache-Control for all items without their own field', async () => {
    const items = [item(1), item(2, { cache: 'no-store' })];
    await native.batch(items, request({ 'cache-control': 'max-age=0' }), reply);
    await native.batch({ calls: [item(3)], cache: 'reload' }, request({ 'cache-control': 'No-Store' }), reply);
    await shannon.batch([{ tool_name: 'adder', parameters: {} }], request({ 'cache-control': 'a, no-store' }), reply);
    await native.batch([item(4)], request({ 'cache-control': 'max-age=10' }), reply);
    expect(ran.map((call) => call.reuse.cache)).toEqual(['reload', 'no-store', 'reload', 'no-store', undefined]);
  });

  it('runs each item under its own fields, over those of the batch', async () => {
    await native.batch(
      { calls: [item(1, { dry_run: true, no_retry: true }), item(2, { timeout_ms: 600_000 })], timeout_ms: 50 },
      request(),
      reply,
    );
    expect(ran.map((call) => [call.mode.kind, call.limits.noRetry, call.limits.timeoutMs])).toEqual([
      ['dry', true, 50],
      ['run', undefined, 600_000],
    ]);
  });

  it.each([
    [{ dryrun: true }, "Item 1: Unknown field 'dryrun'; did you mean dry_run?"],
    [{ dry_run: 'yes' }, 'Item 1: Invalid request: dry_run must be true or false'],
    [
      { idempotency_key: 'k'.repeat(256) },
      'Item 1: Invalid request: idempotency_key must be a string of 1 to 255 characters',
    ],
    [{ timeout_ms: 600_001 }, 'Item 1: Invalid request: timeout_ms must be an integer from 1 to 600000'],
  ])('is refused as a whole when an item has %o', async (field, message) => {
    await expect(native.batch([item(1), item(2, field)], request(), reply)).rejects.toMatchObject({
      code: 'REQUEST_INVALID',
      message,
    });
    expect(ran).toEqual([]);
  });

  it('adds one listener to the connection, and cancels all its calls when it closes', async () => {
    const raw = new EventEmitter();
    await native.batch(
      Array.from({ length: 20 }, (_, n) => item(n)),
      request(),
      { raw } as unknown as FastifyReply,
    );
    expect(raw.listenerCount('close')).toBe(1);
    raw.emit('close');
    expect(ran).toHaveLength(20);
    expect(ran.every(({ signal }) => signal.aborted)).toBe(true);
  });

  it('is refused when its fields contradict each other', async () => {
    const two = { calls: [item(1)], tool_calls: [item(2)] };
    expect(() => native.batch(two, request(), reply)).toThrow(/either/);
    const keys = { calls: [item(1)], idempotency_key: 'a' };
    await expect(async () => native.batch(keys, request({ 'idempotency-key': 'b' }), reply)).rejects.toThrow(/differ/);
    expect(ran).toEqual([]);
  });

  it('of Shannon keeps the session of each call, if any', async () => {
    const call = (parameters: object, session?: unknown) => ({
      tool_name: 'adder',
      parameters,
      ...(session === undefined ? {} : { session_context: session }),
    });
    await shannon.batch(
      [
        call({ n: 1 }, { session_id: 's1', user_id: 'eve', tenant_id: 'other' }),
        call({ n: 1 }, { session_id: 's2' }),
        call({ n: 1 }),
      ],
      request(),
      reply,
    );
    expect(ran.map(({ context }) => context)).toEqual([
      { user_id: 'ann', session_id: 's1' },
      { user_id: 'ann', session_id: 's2' },
      { user_id: 'ann' },
    ]);
    for (const wrong of ['s1', { session_id: 5 }, { session_id: '' }]) {
      await expect(shannon.batch([call({ n: 1 }), call({ n: 2 }, wrong)], request(), reply)).rejects.toMatchObject({
        code: 'REQUEST_INVALID',
      });
    }
    expect(ran).toHaveLength(3);
  });
});
