/** Asynchronous calls a fault must not lose: each ends once, with its result or a clear error. */
import { eventually } from '@toolfleet/testing';
import { expect } from 'vitest';
import { unclear, verdictOf } from './call-lanes.js';
import type { TestFleet } from './test-fleet.js';

/** Calls accepted so far. */
export class AcceptedCalls {
  private readonly calls: { id: string; tool: string; result: unknown }[] = [];

  constructor(private readonly fleet: TestFleet) {}

  /** Accepts so many sums and programs, half of each. */
  async accept(count: number): Promise<void> {
    await Promise.all(
      Array.from({ length: count }, async (_, index) => {
        const tool = index % 2 === 0 ? 'calculator' : 'execute_python';
        const args = tool === 'calculator' ? { expression: `${index}*3` } : { code: `result = ${index} * 3` };
        const answer = await this.fleet.call(tool, args, { fields: { mode: 'async' } });
        expect(answer.status, answer.text).toBe(202);
        this.calls.push({ id: String(answer.body.call_id), tool, result: index * 3 });
      }),
    );
  }

  /** Waits until every call has ended, and judges their ends. */
  async haveEnded(): Promise<void> {
    const states = new Map<
      string,
      { status: string; result?: { output?: Record<string, unknown>; metadata?: object } }
    >();
    const look = async (): Promise<boolean> => {
      for (const { id } of this.calls) {
        const { status, body } = await this.fleet.ask({ path: `/api/v1/calls/${id}` });
        if (status !== 200) return false;
        states.set(id, body);
      }
      return [...states.values()].every(({ status }) => !['accepted', 'claimed'].includes(status));
    };
    await eventually('every accepted call has ended', look, { everyMs: 500 });
    const failures: string[] = [];
    for (const { id, tool, result } of this.calls) {
      const { status, result: told } = states.get(id)!;
      if (status === 'succeeded')
        expect(told?.output, `${tool} ${id}`).toMatchObject({ [tool === 'calculator' ? 'result' : 'value']: result });
      else failures.push(verdictOf((told?.metadata as { code?: string } | undefined)?.code, JSON.stringify(told)));
    }
    expect(unclear(failures)).toEqual([]);
    // Told twice, the end is the same.
    const before = new Map(states);
    await look();
    for (const [id, { status }] of before) expect(states.get(id)!.status).toBe(status);
  }
}
