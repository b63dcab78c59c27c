/** Programs with calls that wait for people, on a fleet with `run_program`, `calculator`, the effect `notes_save_note` and records. */
import { eventually } from '@toolfleet/testing';
import { beforeAll, describe, expect, it } from 'vitest';
import type { CountingMcpServer } from '../fleet/counting-mcp-server.js';
import type { Answer, Ask, TestFleet } from '../fleet/test-fleet.js';

/** The rules that these tests need, by the start of the text of a note. */
export const PROGRAM_RULES = `
deny contains "never" if input.tool == "none"
note := object.get(input.arguments, "text", "") if input.tool == "notes_save_note"
ask contains "Save it?" if startswith(note, "ask ")
ask contains {"question": "Save it?", "on_approval": "park"} if startswith(note, "park ")
ask contains {"question": "Save it now?", "expires_in_seconds": 1} if startswith(note, "now ")
`;

interface WaitingPrograms {
  fleet(): TestFleet;
  server(): CountingMcpServer;
}

const FINAL = ['succeeded', 'failed', 'cancelled', 'expired', 'outcome_unknown'];

/** Tests of the fleet of another file. */
export function describeWaitingPrograms({ fleet, server }: WaitingPrograms): void {
  const program = (code: string, args: object = {}, ask: Parameters<TestFleet['call']>[2] = {}): Promise<Answer> =>
    fleet().call('run_program', { code, ...args }, ask);
  const wait = { fields: { mode: 'async' } };
  const call = async (id: string) => (await fleet().ask({ path: `/api/v1/calls/${id}` })).body;
  const notes = (...texts: string[]) => texts.map((text) => server().notes.get(text) ?? 0);
  let bob: string;
  const show = (id: string) => fleet().ask({ path: `/api/v1/approvals/${id}`, key: bob });
  const decide = (id: string, decision: 'approve' | 'reject', ask: Partial<Ask> = {}) =>
    fleet().ask({ path: `/api/v1/approvals/${id}/${decision}`, body: {}, key: bob, ...ask });
  /** The approval that a call waits for, other than an earlier one. */
  const question = async (id: string, before?: string) => {
    let found: any;
    await eventually(`call ${id} waits`, async () => {
      if ((await call(id)).status !== 'awaiting_approval') return false;
      found = (await show(id)).body;
      return found.state === 'pending' && found.id !== before;
    });
    return found;
  };
  const ended = async (id: string) => {
    await eventually(`call ${id} has ended`, async () => FINAL.includes((await call(id)).status));
    return call(id);
  };
  beforeAll(async () => {
    const body = { client: 'bob', tenant_id: 'acme', roles: ['approver'] };
    bob = (await fleet().ask({ path: '/api/v1/keys', body, key: fleet().operatorKey })).body.token;
  });

  describe('a program whose calls need an approval', () => {
    it('waits without a thread, for all calls of a gather at once, and goes on after each yes', async () => {
      const code = `
import random
n = random.random()
tools.notes_save_note(text="plain 1")
first = gather(*[tools.notes_save_note(text=f"ask {k}") for k in "abc"], tools.calculator(expression="6*7"))
tools.notes_save_note(text="plain 2")
tools.notes_save_note(text="ask d")
result = [len(first), first[3]["result"], n == random.Random().random()]`;
      const { body, status } = await program(code, {}, wait);
      expect(status).toBe(202);
      const asked = await question(body.call_id);
      expect(asked).toMatchObject({
        call_id: body.call_id,
        tool: 'run_program',
        decision: { questions: ['notes_save_note: Save it?'] },
        arguments: {
          calls: ['a', 'b', 'c'].map((k) => ({
            tool: 'notes_save_note',
            arguments: { text: `ask ${k}` },
            questions: ['Save it?'],
          })),
        },
      });
      expect(notes('plain 1', 'ask a', 'plain 2')).toEqual([1, 0, 0]);
      const slots = async () => {
        const { body: text } = await fleet().process('python-sandbox').admin('/metrics');
        return /toolfleet_worker_slots\{(?=[^}]*program-runs)(?=[^}]*busy)[^}]*\} (\d+)/.exec(text)?.[1];
      };
      await eventually('its slot is free', async () => (await slots()) === '0');
      const clicks = await Promise.all([decide(asked.id, 'approve'), decide(asked.id, 'approve')]);
      expect(clicks.map((click) => click.status)).toContain(200);
      const second = await question(body.call_id, asked.id);
      expect(second.arguments.calls).toMatchObject([{ n: 7, arguments: { text: 'ask d' } }]);
      expect(notes('plain 1', 'ask a', 'ask b', 'ask c', 'plain 2', 'ask d')).toEqual([1, 1, 1, 1, 1, 0]);
      await decide(second.id, 'approve');
      const end = await ended(body.call_id);
      expect(end, JSON.stringify(end)).toMatchObject({
        status: 'succeeded',
        result: { output: { value: [4, 42, expect.anything()] } },
      });
      expect(notes('plain 1', 'ask a', 'ask b', 'ask c', 'plain 2', 'ask d')).toEqual([1, 1, 1, 1, 1, 1]);
      expect(end.result.metadata.calls.map(({ n, ok }: { n: number; ok: boolean }) => [n, ok])).toEqual(
        [1, 2, 3, 4, 5, 6, 7].map((n) => [n, true]),
      );
    });

    it('gets a no, and a decision that does not come, as the errors of its calls', async () => {
      const code = `
codes = []
for text in ("ask no", "now or never"):
    try: tools.notes_save_note(text=text)
    except ToolError as e: codes.append(e.code)
codes`;
      const { body } = await program(code, {}, wait);
      await question(body.call_id);
      expect((await decide(body.call_id, 'reject')).status).toBe(200);
      expect(await ended(body.call_id)).toMatchObject({
        status: 'succeeded',
        result: { output: { value: ['APPROVAL_DECLINED', 'APPROVAL_EXPIRED'] } },
      });
      expect(notes('ask no', 'now or never')).toEqual([0, 0]);
    });

    it('waits where its caller or the rule lets it, and else gets APPROVAL_REQUIRED', async () => {
      const code = (text: string) =>
        `try: tools.notes_save_note(text="${text}")\nexcept ToolError as e: result = [e.code, e.message]`;
      const [refusal, advice] = (await program(code('ask sync'))).body.output.value;
      expect([refusal, advice]).toEqual(['APPROVAL_REQUIRED', expect.stringContaining('mode async')]);
      const parks = await program(code('park sync'), {}, { fields: { idempotency_key: 'park-sync' } });
      expect([parks.status, parks.body.status], parks.text).toEqual([202, 'awaiting_approval']);
      const again = await program(code('park sync'), {}, { fields: { idempotency_key: 'park-sync' } });
      expect(again.body.code, again.text).toBe('CALL_IN_PROGRESS');
      const prefers = await program(code('ask prefer'), {}, { headers: { prefer: 'respond-async' } });
      expect(prefers.status).toBe(202);
      for (const { body } of [parks, prefers]) {
        await decide(body.approval.id, 'approve');
        expect(await ended(body.call_id)).toMatchObject({ status: 'succeeded' });
      }
      const replay = await program(code('park sync'), {}, { fields: { idempotency_key: 'park-sync' } });
      expect(replay.body, replay.text).toMatchObject({ success: true, metadata: { idempotent_replay: true } });
      expect(notes('ask sync', 'park sync', 'ask prefer')).toEqual([0, 1, 1]);
    });

    it('is withdrawn by its caller, and goes on without an approval that cannot be stored', async () => {
      const { body } = await program('tools.notes_save_note(text="ask and go")', {}, wait);
      const asked = await question(body.call_id);
      const gone = await fleet().ask({ method: 'DELETE', path: `/api/v1/calls/${body.call_id}` });
      expect(gone.body).toMatchObject({ status: 'cancelled' });
      expect((await decide(asked.id, 'approve')).body.code).toBe('APPROVAL_DECIDED');
      await fleet().kill('records');
      const code = 'try: tools.notes_save_note(text="ask none")\nexcept ToolError as e: result = e.code';
      const lost = await program(code, {}, wait);
      expect(await ended(lost.body.call_id)).toMatchObject({
        status: 'succeeded',
        result: { output: { value: 'SERVICE_UNAVAILABLE' } },
      });
      await fleet().launch('records');
      expect(notes('ask and go', 'ask none')).toEqual([0, 0]);
    });
  });

  describe('a program that waits', () => {
    it('goes on although every process that knew of it was killed', async () => {
      const code = 'tools.notes_save_note(text="before the kill")\ntools.notes_save_note(text="ask a survivor")';
      const { body } = await program(code, {}, wait);
      const asked = await question(body.call_id);
      const killed = ['gateway', 'python-sandbox', 'records'] as const;
      await Promise.all(killed.map((name) => fleet().kill(name)));
      await Promise.all(killed.map((name) => fleet().launch(name)));
      expect((await decide(asked.id, 'approve')).status).toBe(200);
      expect(await ended(body.call_id)).toMatchObject({ status: 'succeeded' });
      expect(notes('before the kill', 'ask a survivor')).toEqual([1, 1]);
    });
  });

  describe('the plan of a program', () => {
    const code = `
total = tools.calculator(expression="6*7")["result"]
for name in inputs: tools.notes_save_note(text=f"planned {name} {total}")
"done"`;

    it('has its effects in order, runs none of them, and lets exactly them run', async () => {
      const inputs = ['one', 'two'];
      const { body } = await program(code, { inputs, plan: true });
      expect(body.output, JSON.stringify(body)).toMatchObject({
        value: 'done',
        plan: {
          complete: true,
          effects: inputs.map((name) => ({ tool: 'notes_save_note', arguments: { text: `planned ${name} 42` } })),
        },
      });
      expect(notes('planned one 42', 'planned two 42')).toEqual([0, 0]);
      const { digest } = body.output.plan;
      const other = await program(code, { inputs: ['one'], plan_digest: digest });
      expect([other.status, other.body.code], other.text).toEqual([409, 'PLAN_OUTDATED']);
      expect((await program(code, { inputs, plan_digest: digest })).body).toMatchObject({ success: true });
      expect(notes('planned one 42', 'planned two 42')).toEqual([1, 1]);
    });

    it('is approved as a whole, and stops the program before an effect that it does not have', async () => {
      const outside = `
saved = tools.notes_save_note(text="ask planned")
if not isinstance(saved, dict) or not saved.get("dry_run"): tools.notes_save_note(text="outside")
tools.notes_save_note(text="after")`;
      const { body } = await program(outside, { plan: true });
      const { digest } = body.output.plan;
      const refused = await program(outside, { plan_digest: digest });
      expect([refused.status, refused.body.code], refused.text).toEqual([403, 'APPROVAL_REQUIRED']);
      const parked = await program(outside, { plan_digest: digest }, wait);
      const asked = await question(parked.body.call_id);
      expect(asked.arguments).toMatchObject({
        plan: digest,
        effects: [{ arguments: { text: 'ask planned' }, questions: ['Save it?'] }, { arguments: { text: 'after' } }],
      });
      await decide(asked.id, 'approve');
      expect(await ended(parked.body.call_id)).toMatchObject({
        status: 'failed',
        result: { metadata: { code: 'OUTSIDE_PLAN' } },
      });
      expect(notes('ask planned', 'outside', 'after')).toEqual([1, 0, 0]);
    });
  });
}
