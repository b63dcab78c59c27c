/** Calls that wait for a person, on a fleet with two gateways and the plugin tool `post_note` that counts its runs by text. */
import { eventually } from '@toolfleet/testing';
import { beforeAll, describe, expect, it } from 'vitest';
import { NatsClient } from '@toolfleet/transport';
import { askTask, modernRequest } from '../fleet/mcp-tasks.js';
import type { Answer, Ask, TestFleet } from '../fleet/test-fleet.js';

/** The rules that these tests need, by the start of the text of a note. */
export const ASK_RULES = `
note := object.get(input.arguments, "text", "") if input.tool == "post_note"
ask contains "Post it?" if startswith(note, "ask ")
ask contains {"question": "Post what two agree on?", "on_approval": "park", "quorum": 2, "not_requester": true} if startswith(note, "two ")
ask contains {"question": "Pay for it?", "roles": {"finance"}} if startswith(note, "pay ")
ask contains {"question": "Post it now?", "expires_in_seconds": 1} if startswith(note, "now ")
ask contains {"question": "Post it?", "on_approval": "wait"} if startswith(note, "bad ")
ask contains {"question": sprintf("Post %v?", [note]), "grant": {"max_hours": 2, "fields": {"text"}, "for": "Posts of grants"}} if startswith(note, "grant ")
deny contains "not this note" if note == "ask secret checked"
ask contains "Look for this person?" if { input.tool == "crm_find"; input.arguments.name == "ask" }
`;

/** An interceptor: checks drafts before people are asked. */
export const CHECKS_DRAFTS = `export default { intercept(call, next) {
  const { text = '' } = call.arguments;
  if (!text.startsWith('draft ')) return next();
  return next({ arguments: { ...call.arguments, text: text.replace('draft', 'ask') + ' checked' } });
} };`;

interface WaitingCalls {
  fleet(): TestFleet;
  /** Runs fleetctl with a key. */
  fleetctl(key: string, ...argv: string[]): Promise<{ code: number; out: string; error: string }>;
  /** Changes the description of `crm_find`, and approves the change. */
  changeTool(description: string): Promise<void>;
}

type Sent = Omit<Ask, 'path' | 'body'> & { fields?: object };

/** Tests of the fleet of another file. */
export function describeWaitingCalls({ fleet, fleetctl, changeTool }: WaitingCalls): void {
  describe('calls that wait for a person', () => {
    let bob: string;
    let eve: string;
    let payer: string;
    const newKey = async (client: string, roles: string[]): Promise<string> => {
      const body = { client, tenant_id: 'globex', roles };
      const made = await fleet().ask({ path: '/api/v1/keys', body, key: fleet().operatorKey });
      expect(made.status, made.text).toBe(201);
      return made.body.token;
    };
    beforeAll(async () => {
      bob = await newKey('bob', ['approver']);
      eve = await newKey('eve', ['approver']);
      payer = await newKey('payer', ['finance']);
    });

    const member = () => fleet().keys['globex']!;
    const post = (text: string, { key = member(), ...sent }: Sent = {}): Promise<Answer> =>
      fleet().call('post_note', { text }, { key, ...sent });
    const wait = { fields: { mode: 'async' } };
    const call = async (id: string, ask: Partial<Ask> = {}) =>
      (await fleet().ask({ path: `/api/v1/calls/${id}`, key: member(), ...ask })).body;
    const ended = async (id: string) => {
      await eventually(`call ${id} has ended`, async () => (await call(id)).finished_at !== undefined);
      return call(id);
    };
    const show = async (id: string, key: string) => fleet().ask({ path: `/api/v1/approvals/${id}`, key });
    const decide = (id: string, decision: 'approve' | 'reject', key: string, ask: Partial<Ask> = {}) =>
      fleet().ask({ path: `/api/v1/approvals/${id}/${decision}`, body: {}, key, ...ask });
    const state = async (id: string) => (await show(id, bob)).body.state;
    const records = async (id: string): Promise<{ status: string; code?: string; approval_grant?: string }[]> =>
      (await fleet().ask({ path: `/api/v1/calls?id=${id}`, key: member() })).body.calls;

    it('run once after one yes, however often and wherever it is given', async () => {
      const parked = await post('ask \u202eonce', wait);
      expect(parked.status, parked.text).toBe(202);
      const { call_id: id, status, approval } = parked.body;
      expect([status, approval]).toMatchObject([
        'awaiting_approval',
        { id, questions: ['Post it?'], quorum: 1, right: 'decide_calls', url: `/console/#/approvals/${id}` },
      ]);
      expect(await call(id, { gateway: 1 })).toMatchObject({ status: 'awaiting_approval', tool: 'post_note' });
      // Its caller sees the question, and only those that decide the arguments.
      const mine = (await show(id, member())).body;
      expect(mine).toMatchObject({ state: 'pending', may_decide: false });
      expect(mine.arguments).toBeUndefined();
      expect((await decide(id, 'approve', member())).body.code).toBe('PERMISSION_DENIED');
      const { body: ofUser } = await show(id, await newKey('app', []));
      expect([ofUser.state, ofUser.may_decide, ofUser.arguments]).toEqual(['pending', false, undefined]);
      expect((await show(id, payer)).status).toBe(404);
      expect((await show(id, fleet().keys['acme']!)).status).toBe(404);
      expect((await show(id, bob)).body).toMatchObject({
        arguments: { text: 'ask \u202eonce' },
        shown: expect.stringContaining('ask ‹U+202E›once'),
        hidden_characters: 1,
        may_decide: true,
      });
      const clicks = await Promise.all(
        [0, 1, 0, 1].map((gateway, index) => decide(id, 'approve', index < 2 ? bob : eve, { gateway })),
      );
      expect(clicks.filter(({ status: code }) => code === 200).length).toBeGreaterThanOrEqual(2);
      expect(await ended(id)).toMatchObject({ status: 'succeeded', result: { output: { runs: 1 }, call_id: id } });
      await eventually('its end is known', async () => (await state(id)) === 'done');
      expect((await decide(id, 'reject', eve)).body.code).toBe('APPROVAL_DECIDED');
      await eventually('it is recorded', async () => (await records(id)).length > 0);
      expect((await records(id)).map((one) => one.status)).toEqual(['success']);
    });

    it('are approved as an interceptor changed them, and its changes pass the policy', async () => {
      expect((await post('draft secret', wait)).body).toMatchObject({ code: 'POLICY_DENIED', error: 'not this note' });
      const { call_id: id } = (await post('draft note', wait)).body;
      expect((await show(id, bob)).body.arguments).toEqual({ text: 'ask note checked' });
      await decide(id, 'approve', bob, { gateway: 1 });
      expect(await ended(id)).toMatchObject({ status: 'succeeded', result: { output: { runs: 1 } } });
      expect((await call(id)).result.text).toBe('ask note checked');
      await eventually('it is recorded', async () => (await records(id)).length > 0);
      expect(await records(id)).toMatchObject([{ status: 'success', interceptions: ['drafts changed_arguments'] }]);
    });

    it('end with the reason of a no', async () => {
      const { call_id: id } = (await post('ask rejected', wait)).body;
      const no = { path: `/api/v1/approvals/${id}/reject`, body: { note: 'Wrong board' }, key: bob, gateway: 1 };
      expect((await fleet().ask(no)).body).toMatchObject({ state: 'rejected', votes: [{ note: 'Wrong board' }] });
      expect(await ended(id)).toMatchObject({
        status: 'failed',
        result: {
          success: false,
          error: expect.stringContaining('Wrong board'),
          metadata: { code: 'APPROVAL_DECLINED' },
        },
      });
      await eventually('it is recorded', async () => (await records(id))[0]?.code === 'APPROVAL_DECLINED');
    });

    it('end when no decision comes in time', async () => {
      const { call_id: id } = (await post('now or never', wait)).body;
      expect(await ended(id)).toMatchObject({ status: 'expired', result: { metadata: { code: 'APPROVAL_EXPIRED' } } });
      expect((await decide(id, 'approve', bob)).body.code).toBe('APPROVAL_DECIDED');
    });

    it('are withdrawn by their caller', async () => {
      const { call_id: id } = (await post('ask and go', wait)).body;
      const cancelled = await fleet().ask({ method: 'DELETE', path: `/api/v1/calls/${id}`, key: member() });
      expect(cancelled.body).toMatchObject({ status: 'cancelled' });
      expect((await decide(id, 'approve', bob)).body.code).toBe('APPROVAL_DECIDED');
      expect(await state(id)).toBe('cancelled');
    });

    it('are refused with an id where the caller does not wait, and run when they are made again', async () => {
      const key = { fields: { idempotency_key: 'note-7' } };
      const refused = await post('ask again', key);
      expect([refused.status, refused.body]).toMatchObject([
        403,
        { code: 'APPROVAL_REQUIRED', details: { questions: ['Post it?'], approval: { id: refused.body.call_id } } },
      ]);
      const { id } = refused.body.details.approval;
      expect((await post('ask again', { ...key, gateway: 1 })).body.details.approval.id).toBe(id);
      expect((await post('ask something else', key)).body.code).toBe('IDEMPOTENCY_MISMATCH');
      expect((await decide(id, 'approve', bob)).body).toMatchObject({ state: 'approved', parked: false });
      const made = await Promise.all([0, 1].map((gateway) => post('ask again', { ...key, gateway })));
      for (const { status, body } of made)
        expect([status === 409 ? 'CALL_IN_PROGRESS' : body.output?.runs, status]).toEqual([
          expect.anything(),
          expect.anything(),
        ]);
      expect((await post('ask again', key)).body).toMatchObject({ output: { runs: 1 } });
      // Without a key, one yes is for one call.
      const plain = (await post('ask plainly')).body.details.approval.id;
      await decide(plain, 'approve', bob);
      expect((await post('ask plainly')).body).toMatchObject({ success: true, output: { runs: 1 } });
      expect((await post('ask plainly')).body.code).toBe('APPROVAL_REQUIRED');
    });

    it('follow their rule: parked, by two users and not their own, or by a role', async () => {
      const own = await newKey('two', ['approver']);
      const { status, body } = await post('two votes', { key: own });
      expect([status, body.approval]).toMatchObject([202, { quorum: 2, not_requester: true }]);
      const id = body.call_id;
      expect((await decide(id, 'approve', own)).status).toBe(403);
      expect((await decide(id, 'approve', bob)).body.state).toBe('pending');
      expect((await decide(id, 'approve', bob, { gateway: 1 })).body.votes).toHaveLength(1);
      await decide(id, 'approve', eve);
      await eventually('it ran', async () => (await call(id, { key: own })).result?.output?.runs === 1);

      const prefers = await post('pay it', { headers: { prefer: 'respond-async' } });
      expect(prefers.status).toBe(202);
      expect((await decide(prefers.body.call_id, 'approve', bob)).status).toBe(404);
      expect((await decide(prefers.body.call_id, 'approve', payer)).status).toBe(200);
      expect(await ended(prefers.body.call_id)).toMatchObject({ status: 'succeeded' });

      expect((await post('bad rule')).body).toMatchObject({
        code: 'POLICY_DENIED',
        error: expect.stringContaining('on_approval must be "park"'),
      });
    });

    it('do not run under a key that was revoked, or with a tool that changed since', async () => {
      const lost = await newKey('lost', []);
      const { call_id: id } = (await post('ask for a lost key', { key: lost, ...wait })).body;
      const listed = (await fleet().ask({ path: '/api/v1/keys', key: fleet().operatorKey })).body;
      const { id: keyId } = listed.find((one: { client: string }) => one.client === 'lost');
      await fleet().ask({ method: 'DELETE', path: `/api/v1/keys/${keyId}`, key: fleet().operatorKey });
      await decide(id, 'approve', bob);
      await eventually('it is invalid', async () => (await state(id)) === 'invalidated');
      expect((await show(id, bob)).body.code).toBe('UNAUTHENTICATED');

      const find = await fleet().call('crm_find', { name: 'ask' }, { key: member(), ...wait });
      expect(find.status, find.text).toBe(202);
      await changeTool('Finds a person and their friends');
      await decide(find.body.call_id, 'approve', bob);
      expect(await ended(find.body.call_id)).toMatchObject({
        status: 'failed',
        result: { metadata: { code: 'APPROVAL_INVALIDATED' } },
      });
      expect(await state(find.body.call_id)).toBe('invalidated');
      await changeTool('Finds a person');
    });

    it('wait over NATS, and their end is published once they ran', async () => {
      const nats = await NatsClient.connect({ url: fleet().nats.url, name: 'service' });
      try {
        const results: { subject: string; body: any }[] = [];
        nats.subscribe('tool.result.globex.>', ({ subject, body }) => results.push({ subject, body }));
        await nats.link.flush();
        const headers = { Authorization: `Bearer ${member()}` };
        const send = (text: string, mode?: string) =>
          nats.request<any>(
            'tool.call',
            { name: 'post_note', arguments: { text }, mode },
            { timeoutMs: 60_000, headers },
          );
        const waiting = await send('ask over NATS', 'async');
        expect(waiting).toMatchObject({ status: 'awaiting_approval', approval: { questions: ['Post it?'] } });
        const id = waiting.call_id;
        await expect(send('ask over NATS and leave')).rejects.toMatchObject({
          code: 'APPROVAL_REQUIRED',
          message: expect.stringMatching(/: \/console\/#\/approvals\/\S+ \(below .* GATEWAY_PUBLIC_URL set/),
          details: { approval: { id: expect.any(String), url: expect.stringContaining('/console/#/approvals/') } },
        });
        expect(await send('two over NATS')).toMatchObject({ status: 'awaiting_approval', approval: { quorum: 2 } });
        expect((await decide(id, 'approve', bob)).status).toBe(200);
        await eventually('its end is published', async () => results.length > 0);
        expect(results).toMatchObject([
          {
            subject: `tool.result.globex.${id}`,
            body: { call_id: id, success: true, metadata: { status: 'succeeded' } },
          },
        ]);
        const open = (await fleet().ask({ path: '/api/v1/approvals?state=pending', key: bob })).body.approvals;
        for (const one of open)
          if (/over NATS/.test(JSON.stringify((await show(one.id, bob)).body))) await decide(one.id, 'reject', bob);
      } finally {
        await nats.close();
      }
    });

    it('are tasks of MCP clients that take tasks, and else errors with an id and a link', async () => {
      const ask = (text: string, capabilities: object, tasks: boolean) => {
        const { body, headers } = modernRequest('tools/call', { name: 'post_note', arguments: { text } }, capabilities);
        const params = (body as any).params;
        if (!tasks) delete params._meta['io.modelcontextprotocol/clientCapabilities'].extensions;
        return fleet().ask({ path: '/mcp', body, headers, key: member() });
      };
      const { body: made } = await ask('ask for a task', {}, true);
      expect(made.result, JSON.stringify(made)).toMatchObject({ resultType: 'task' });
      const id = made.result.taskId;
      expect((await show(id, bob)).body).toMatchObject({ state: 'pending', parked: true, entry_point: 'mcp' });
      expect((await decide(id, 'approve', bob)).status).toBe(200);
      const task = async () => (await askTask(fleet(), 'tasks/get', id, { key: member(), gateway: 1 })).body;
      await eventually('the task has ended', async () => (await task()).result?.status === 'completed');
      expect(JSON.stringify(await task())).toContain('ask for a task');

      const form = { elicitation: { form: {} } };
      expect((await ask('ask a person', form, false)).body.result).toMatchObject({ resultType: 'input_required' });
      // The rule asks for others than the person at the client.
      const paid = (await ask('pay a person', form, false)).body.result;
      expect(paid, JSON.stringify(paid)).toMatchObject({ isError: true, _meta: { code: 'APPROVAL_REQUIRED' } });
      const refused = (await ask('ask no person', {}, false)).body.result;
      expect(refused).toMatchObject({ isError: true, _meta: { code: 'APPROVAL_REQUIRED' } });
      const [, link] = /(\/console\/#\/approvals\/[0-9a-f-]{36})/.exec(JSON.stringify(refused))!;
      const approval = link!.split('/').at(-1)!;
      expect((await show(approval, bob)).body).toMatchObject({
        state: 'pending',
        arguments: { text: 'ask no person' },
      });
      await decide(approval, 'reject', bob);
    });

    it('are decided from a terminal', async () => {
      const { call_id: id } = (await post('ask \u200bfleetctl', wait)).body;
      expect((await fleetctl(bob, 'approvals')).out).toMatch(
        new RegExp(`^${id} +post_note +globex/\\S+ +you .* Post it\\?$`, 'm'),
      );
      const shown = await fleetctl(bob, 'approvals', 'show', id);
      expect(shown.out).toContain('"text": "ask ‹U+200B›fleetctl"');
      expect(shown.out).toContain(`fleetctl approvals approve ${id}`);
      expect((await fleetctl(member(), 'approvals', 'approve', id)).code).toBe(4);
      expect(await fleetctl(bob, 'approvals', 'approve', id)).toMatchObject({
        code: 0,
        out: `Approved post_note ${id}\n`,
      });
      expect(await ended(id)).toMatchObject({ status: 'succeeded' });
      expect((await fleetctl(bob, 'approvals', 'reject', id, '--note', 'late')).code).toBe(1);
    });

    it('ask in one line, whatever arguments are in the question', async () => {
      const { details } = (await post('grant x\n\nTool: echo\u202e')).body;
      expect(details.approval.questions).toEqual(['Post grant x‹U+000A›‹U+000A›Tool: echo‹U+202E›?']);
      expect((await decide(details.approval.id, 'reject', bob)).status).toBe(200);
    });

    it('run without a question once people have granted others like them', async () => {
      const { id } = (await post('grant first')).body.details.approval;
      const yes = (grant: object) =>
        fleet().ask({ path: `/api/v1/approvals/${id}/approve`, body: { grant }, key: bob });
      expect((await show(id, bob)).body.decision.grant).toEqual({
        for: ['Posts of grants'],
        max_hours: 2,
        fields: ['text'],
      });
      expect((await yes({ hours: 3 })).body).toMatchObject({
        code: 'REQUEST_INVALID',
        error: expect.stringContaining('grant.hours is 3; the policy allows at most 2'),
      });
      for (const [grant, fault] of [
        [{ hours: -1 }, '/grant/hours'],
        [{ hours: 0 }, '/grant/hours'],
        [{ hours: 'x' }, '/grant/hours'],
        [{ hours: 1, max_uses: 0 }, '/grant/max_uses'],
        [{ hours: 1, fields: 'text' }, '/grant/fields'],
        [{ hours: 1, until: 9 }, '/grant/until'],
        [{}, '/grant/hours'],
      ] as const)
        expect(await yes(grant), JSON.stringify(grant)).toMatchObject({
          status: 400,
          body: { code: 'REQUEST_INVALID', error: expect.stringContaining(fault) },
        });
      expect((await yes({ hours: 1, fields: ['board'] })).body.error).toContain("grant.fields has 'board'");
      const given = await fleetctl(
        bob,
        'approvals',
        'approve',
        id,
        '--grant',
        '90m',
        '--vary',
        'text',
        '--max-uses',
        '4',
      );
      const [, grant = ''] = /^Grant (\S+) /m.exec(given.out) ?? [];
      expect((await post('grant first')).body).toMatchObject({ success: true });

      const runs = await Promise.all([0, 1, 0].map((gateway, n) => post(`grant ${n}`, { gateway })));
      expect(runs.map(({ status }) => status)).toEqual([200, 200, 200]);
      const parked = await post('grant later', wait);
      expect(parked.body).toMatchObject({ status: 'accepted' });
      expect(await ended(parked.body.call_id)).toMatchObject({ status: 'succeeded' });
      const last = parked.body.call_id;
      await eventually('it is recorded', async () => (await records(last)).length > 0);
      expect(await records(last)).toMatchObject([{ approval_grant: grant }]);
      // Another user of the tenant has no grant, and a call beyond its number is asked.
      expect((await post('grant other', { key: payer })).body.code).toBe('APPROVAL_REQUIRED');
      expect((await post('grant more')).body.code).toBe('APPROVAL_REQUIRED');
      expect((await fleetctl(bob, 'approvals', 'grants')).out).toBe('No grants\n');
      expect((await fleetctl(bob, 'approvals', 'grants', '--ended')).out).toMatch(
        new RegExp(`^${grant} +post_note +globex/\\S+ +used_up .* 4/4 +Posts of grants$`, 'm'),
      );

      const next = (await post('grant again')).body.details.approval.id;
      const second = {
        path: `/api/v1/approvals/${next}/approve`,
        body: { grant: { hours: 1, fields: ['text'] } },
        key: eve,
      };
      const revoked = (await fleet().ask(second)).body.grant_id;
      expect((await post('grant again and again', { gateway: 1 })).status).toBe(200);
      const view = { path: `/api/v1/approval-grants/${revoked}`, key: eve };
      expect((await fleet().ask(view)).body).toMatchObject({ state: 'active', uses: 1, arguments: {}, shown: '{}' });
      expect((await fleet().ask({ ...view, key: member() })).body).not.toHaveProperty('arguments');
      expect((await fleet().ask({ ...view, key: fleet().keys['acme']! })).status).toBe(404);
      // The user that has it may give it up.
      expect((await fleet().ask({ ...view, method: 'DELETE', key: member() })).body).toMatchObject({
        state: 'revoked',
      });
      expect((await post('grant no more', { gateway: 1 })).body.code).toBe('APPROVAL_REQUIRED');
      expect((await fleetctl(bob, 'approvals', 'grants', 'show', revoked)).out).toContain('revoked by');
      for (const text of ['grant more', 'grant no more'])
        await decide((await post(text)).body.details.approval.id, 'reject', bob);
      await decide((await post('grant other', { key: payer })).body.details.approval.id, 'reject', bob);
    });

    it('are not taken while they cannot be stored, and wait through a restart of their store', async () => {
      const { call_id: id } = (await post('ask and wait', wait)).body;
      await fleet().kill('records');
      const refused = await post('ask the void', wait);
      expect([refused.status, refused.body.code]).toEqual([503, 'SERVICE_UNAVAILABLE']);
      expect((await post('ask the void')).body.code).toBe('SERVICE_UNAVAILABLE');
      expect(await call(id)).toMatchObject({ status: 'awaiting_approval' });
      await fleet().launch('records');
      expect((await decide(id, 'approve', bob)).status).toBe(200);
      expect(await ended(id)).toMatchObject({ status: 'succeeded', result: { output: { runs: 1 } } });
      const path = '/api/v1/approvals?state=pending&tool=post_note';
      const { approvals } = (await fleet().ask({ path, key: bob })).body;
      expect(approvals.map(({ decision }: { decision: { questions: string[] } }) => decision.questions[0])).toEqual([
        'Post it?',
      ]);
      await decide(approvals[0].id, 'reject', bob);
    });
  });
}
