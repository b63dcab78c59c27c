/** Members of `ask` with the conditions of their answer. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { FakeClock } from '@toolfleet/testing';
import { describe, expect, it } from 'vitest';
import { opaDecision } from './opa-decision.js';
import type { PolicyInput } from './policy-engine.js';
import { RegoPolicy } from './rego-policy.js';

const PAGE = fileURLToPath(new URL('../../../docs/approvals.md', import.meta.url));
const INPUT: PolicyInput = {
  tool: 'payments_refund',
  user: { id: 'ann', tenant: 'acme', roles: [], via: 'api_key' },
  arguments: { amount: 150 },
  origin: 'public',
  entry_point: 'http',
};
const decide = (rules: string) =>
  new RegoPolicy([{ name: 'tools.rego', text: `package tools\ndeny := false\n${rules}` }], new FakeClock()).decide(
    INPUT,
  );

/** Where the first line of `decide` is. */
const firstRule = ['tools.rego:3'];
const oneRule = [expect.stringMatching(/^tools\.rego:\d+$/)];

describe('a question with conditions', () => {
  it('is read as docs/approvals.md shows it', () => {
    const [, example = ''] = /^```rego\n(.*?)^```$/ms.exec(readFileSync(PAGE, 'utf8')) ?? [];
    expect(decide(example)).toEqual({
      deny: [],
      rules: oneRule,
      ask: ['Refund 150 USD?'],
      approval: {
        parks: true,
        quorum: 2,
        roles: [['finance', 'finance-lead']],
        not_requester: true,
        expires_in_s: 3_600,
      },
    });
  });

  it('offers grants as docs/approvals.md shows it', () => {
    const examples = [...readFileSync(PAGE, 'utf8').matchAll(/^```rego\n(.*?)^```$/gms)];
    expect(decide(examples[1]![1]!)).toEqual({
      deny: [],
      rules: oneRule,
      ask: ['Refund 150 USD to customer ??'],
      approval: {
        grant: {
          for: ['Refunds up to 500 USD to customer ?'],
          max_s: 8 * 3_600,
          fields: ['amount', 'reason'],
          max_uses: 20,
        },
      },
    });
  });

  it('offers a grant only where all rules do, and the narrowest', () => {
    const rules = `
      ask contains {"question": "Pay?", "grant": {"max_hours": 8, "fields": ["amount", "note"], "max_uses": 9}}
      ask contains {"question": "Sure?", "grant": {"max_hours": 2, "fields": ["note", "to"], "for": "All of it"}}`;
    expect(decide(rules).approval).toEqual({
      grant: { for: ['All of it', 'Pay?'], max_s: 7_200, fields: ['note'], max_uses: 9 },
    });
    expect(decide(`${rules}\nask contains "Plain?"`).approval).toEqual({});
  });

  it('is one line without hidden characters, because it may have arguments of the call', () => {
    const text = String.raw`Pay?\n\nTool: echo\u202e`;
    const shown = 'Pay?‹U+000A›‹U+000A›Tool: echo‹U+202E›';
    expect(decide(`ask contains "${text}"`).ask).toEqual([shown]);
    const { ask, approval } = decide(`ask contains {"question": "${text}", "grant": {"max_hours": 1}}`);
    expect([ask, approval?.grant?.for]).toEqual([[shown], [shown]]);
  });

  it('is joined with others to the strictest of all', () => {
    const rules = `
      ask contains "Plain?"
      ask contains {"question": "Two?", "on_approval": "park", "quorum": 2, "roles": ["a"]}
      ask contains {"question": "Soon?", "expires_in_seconds": 60, "roles": ["b", "c"]}
      ask contains {"question": "Later?", "expires_in_seconds": 90}`;
    const { ask, approval } = decide(rules);
    expect(ask?.toSorted()).toEqual(['Later?', 'Plain?', 'Soon?', 'Two?']);
    expect(approval).toEqual({ quorum: 2, roles: expect.arrayContaining([['a'], ['b', 'c']]), expires_in_s: 60 });
  });

  it('has no conditions where every rule is a plain question', () => {
    expect(decide('ask contains "Plain?"')).toEqual({ deny: [], ask: ['Plain?'], rules: firstRule });
    expect(decide('ask contains {"question": "Plain?"}')).toEqual({ deny: [], ask: ['Plain?'], rules: firstRule });
    expect(decide('ask contains {"code": 7}')).toEqual({ deny: [], ask: ['{"code": 7}'], rules: firstRule });
  });

  it.each([
    ['"quorom": 2', 'has no field quorom'],
    ['"on_approval": "wait"', 'on_approval must be "park"'],
    ['"quorum": 0', 'quorum must be an integer from 1 to 20'],
    ['"quorum": 1.5', 'quorum must be an integer from 1 to 20'],
    ['"roles": []', 'roles must be names'],
    ['"roles": "finance"', 'roles must be names'],
    ['"not_requester": "yes"', 'not_requester must be true or false'],
    ['"expires_in_seconds": 99999999', 'expires_in_seconds must be an integer from 1 to 2592000'],
    ['"grant": true', 'grant must be an object'],
    ['"grant": {}', 'grant.max_hours must be an integer from 1 to 720'],
    ['"grant": {"max_hours": 1, "field": "x"}', 'grant has no field field'],
    ['"grant": {"max_hours": 1, "fields": "x"}', 'grant.fields must be names of arguments'],
    ['"grant": {"max_hours": 1, "for": ""}', 'grant.for must be a string'],
    ['"grant": {"max_hours": 1, "max_uses": 0}', 'grant.max_uses must be an integer from 1 to 1000000'],
  ])('denies the call with %s', (field, reason) => {
    expect(decide(`ask contains {"question": "Pay?", ${field}}`).deny).toEqual([
      `the policy could not be evaluated: ask "Pay?": ${reason}`,
    ]);
  });

  it('is read from an OPA server as well', () => {
    const opa = (ask: unknown) =>
      opaDecision({ status: 200, body: { result: [] } }, { status: 200, body: { result: [ask] } });
    expect(opa({ question: 'Pay?', quorum: 2 })).toEqual({ deny: [], ask: ['Pay?'], approval: { quorum: 2 } });
    expect(opa({ question: 'Pay?', quorum: 'two' }).deny).toEqual([expect.stringContaining('quorum must be')]);
  });
});
