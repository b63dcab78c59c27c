/** Work of every kind that a store has to keep over its restart: API keys, idempotency keys, jobs, approvals, and rows of usage. */
import { eventually } from '@toolfleet/testing';
import { expect } from 'vitest';
import { AcceptedCalls } from './accepted-calls.js';
import type { Answer, TestFleet } from './test-fleet.js';

/** Expressions that begin with this wait for an approval. */
const ASKED = '0+0+';
/** The policy that a fleet needs for it. */
export const ASKING_POLICY = `package tools
deny contains "never" if input.tool == "none"
ask contains "Sure?" if { input.tool == "calculator"; startswith(input.arguments.expression, "${ASKED}") }
`;

/** Of each kind. */
const COUNT = 5;
let next = 0;

export class KeptWork {
  private constructor(
    private readonly fleet: TestFleet,
    private readonly keys: readonly string[],
    private readonly keyed: readonly { key: string; answer: Answer }[],
    private readonly accepted: AcceptedCalls,
    private readonly parked: readonly string[],
    private readonly charged: number,
  ) {}

  /** Makes keys, and calls of each kind; needs `ASKING_POLICY`. */
  static async begin(fleet: TestFleet): Promise<KeptWork> {
    const charged = await chargedCalls(fleet);
    const ofEach = <T>(make: () => Promise<T>) => Promise.all(Array.from({ length: COUNT }, make));
    const keys = await ofEach(async () => {
      const body = { client: `kept-${(next += 1)}`, tenant_id: 'acme', roles: ['approver'], tier: 'wide' };
      const made = await fleet.ask({ path: '/api/v1/keys', body, key: fleet.operatorKey });
      expect(made.status, made.text).toBe(201);
      return String(made.body.token);
    });
    const keyed = await ofEach(async () => {
      const key = `kept-${(next += 1)}`;
      const answer = await repeat(fleet, key);
      expect(answer.status, answer.text).toBe(200);
      return { key, answer };
    });
    const parked = await ofEach(async () => {
      const args = { expression: `${ASKED}${(next += 1)}` };
      const { status, body, text } = await fleet.call('calculator', args, { fields: { mode: 'async' } });
      expect({ status, state: body?.status }, text).toEqual({ status: 202, state: 'awaiting_approval' });
      return String(body.call_id);
    });
    const accepted = new AcceptedCalls(fleet);
    await accepted.accept(2 * COUNT);
    return new KeptWork(fleet, keys, keyed, accepted, parked, charged);
  }

  /** Expects that all of it is there: nothing is lost, nothing happens twice. */
  async isKept(): Promise<void> {
    const { fleet } = this;
    for (const key of this.keys) {
      const { status, text } = await fleet.ask({ path: '/tools/list', key });
      expect(status, text).toBe(200);
    }
    for (const { key, answer } of this.keyed) {
      const { status, body, text } = await repeat(fleet, key);
      expect({ status, call: body?.call_id }, text).toEqual({ status: 200, call: answer.body.call_id });
    }
    for (const id of this.parked) {
      const path = `/api/v1/approvals/${id}/approve`;
      const { status, text } = await fleet.ask({ path, body: {}, key: this.keys[0]! });
      expect(status, text).toBe(200);
    }
    await this.accepted.haveEnded();
    for (const id of this.parked)
      await eventually('an approved call has succeeded', async () => {
        const { body } = await fleet.ask({ path: `/api/v1/calls/${id}` });
        return body?.status === 'succeeded';
      });
    const made = this.keyed.length + this.parked.length;
    await eventually('every call is in the ledger', async () => (await chargedCalls(fleet)) >= this.charged + made);
  }
}

const repeat = (fleet: TestFleet, key: string) =>
  fleet.call('calculator', { expression: '20+1' }, { headers: { 'idempotency-key': key } });

/** Calls of `calculator` in the ledger. */
async function chargedCalls(fleet: TestFleet): Promise<number> {
  const { body } = await fleet.ask({ path: '/api/v1/usage?group_by=tool' });
  const rows: { tool_name: string; calls: number }[] = body?.rows ?? [];
  return rows.find(({ tool_name: tool }) => tool === 'calculator')?.calls ?? 0;
}
