/** What tenants rely on for money: exact limits, one ledger row per execution, and the same amount in answer, row and metric. */
import { atLeast, present } from '../expectation.mjs';

/** What a call cost in its answer, its ledger row and the metric of its tool, in micro-USD. */
async function amounts(fleet, tool, args = {}) {
  let body;
  const usd = await fleet.growth('shannon_tool_cost_usd', { tool_name: tool }, async () => {
    ({ body } = await fleet.call(tool, { key: fleet.fresh(), ...args }));
    await fleet.callLine(body.call_id);
  });
  const rows = await fleet.ledger(body.call_id);
  return {
    answer: Math.round(body.usage.cost_usd * 1e6),
    row: rows[0]?.micro_usd ?? null,
    rows: rows.length,
    metric: Math.round(usd * 1e6),
    tokens: [body.usage.tokens, rows[0]?.total_tokens ?? null],
    success: [body.success, rows[0] ? rows[0].success === 1 : null],
  };
}

export default {
  group: 'budgets and usage',
  probes: [
    {
      name: 'the row of a call in token_usage',
      reliance: 'one row with tool, price, synthetic tokens and outcome',
      expected: [
        {
          tool_name: 'probe_effect',
          provider: 'shannon-tools',
          model: 'tool_probe_effect',
          agent_id: 'tool_probe_effect',
          cost_usd: 0.001,
          micro_usd: 1_000,
          total_tokens: 500,
          real_tokens: 0,
          success: 1,
          provenance: 'live',
          tenant_id: 'local',
        },
      ],
      async see(fleet) {
        const { body } = await fleet.call('probe_effect', { key: fleet.fresh() });
        return fleet.ledger(body.call_id);
      },
      needs: 'own',
    },
    {
      name: 'a reported cost below the price',
      reliance: 'the reported cost replaces the price everywhere',
      expected: { answer: 400, row: 400, rows: 1, metric: 400 },
      see: (fleet) => amounts(fleet, 'probe_undercharges'),
      needs: 'own',
    },
    {
      name: 'an upstream that answers 404',
      reliance: 'the tool ran: the call costs its price',
      expected: { answer: 1_000, row: 1_000, rows: 1, metric: 1_000 },
      see: (fleet) => amounts(fleet, 'up_missing', { key: undefined, text: fleet.fresh() }),
      needs: 'own',
    },
    {
      name: 'a cached result',
      reliance: 'costs nothing and has no second row',
      expected: { first: 0.004, again: 0, rows: 0 },
      async see(fleet) {
        const query = fleet.fresh();
        const first = await fleet.call('web_search', { query });
        const again = await fleet.call('web_search', { query });
        const rows = await fleet.ledger(again.body.call_id, 1_500);
        return { first: first.body.usage.cost_usd, again: again.body.usage.cost_usd, rows: rows.length };
      },
      needs: 'own',
    },
    {
      name: 'the limits of one request',
      reliance: '0.50 USD and 10,000 tokens unless configured; calls that name the request share them',
      expected: { limit_micro_usd: 500_000, limit_tokens: 10_000, spent_micro_usd: 1_000 },
      async see(fleet) {
        const request = fleet.fresh();
        await fleet.call('probe_effect', { key: request }, { fields: { request_id: request } });
        return scope(fleet, 'request', { request_id: request }, (one) => one.spent_micro_usd > 0);
      },
      needs: 'own',
    },
    {
      name: 'the limits of an agent and a task',
      reliance: '5,000 and 20,000 tokens, counted only for callers that name them',
      expected: { agent: 5_000, task: 20_000, none: [] },
      async see(fleet) {
        const ids = { agent_id: fleet.fresh(), task_id: fleet.fresh() };
        const dry = await fleet.call('probe_effect', {}, { fields: { dry_run: true } });
        return {
          agent: (await scope(fleet, 'agent', ids)).limit_tokens,
          task: (await scope(fleet, 'task', ids)).limit_tokens,
          none: dry.body.output.limits.budget.filter(({ scope: name }) => /^(agent|task)/.test(name)),
        };
      },
      needs: 'own',
    },
    {
      name: 'usage and budgets over HTTP',
      reliance: 'sums by day and tool, and the state of each limit',
      expected: {
        row: { calls: atLeast(1), tokens: present, cost_usd: present, day: /^\d{4}-\d{2}-\d{2}$/ },
        scopes: ['tenant', 'day'],
      },
      async see(fleet) {
        await fleet.call('calculator', { expression: `${Date.now()} + 1` });
        let row;
        await fleet.until('usage is in the ledger', async () => {
          const { body } = await fleet.http('/api/v1/usage');
          return (row = body.rows.find(({ tool_name: tool }) => tool === 'calculator')) !== undefined;
        });
        const { body } = await fleet.http('/api/v1/budgets');
        return { row, scopes: body.budgets.map(({ scope: name }) => name.split(':')[0]).slice(0, 2) };
      },
    },
  ],
};

/** A scope of the budget of a call, as a dry run shows it; polled until it is as wanted. */
async function scope(fleet, name, fields, isThere = () => true) {
  let found;
  await fleet.until(`the ${name} is charged`, async () => {
    const { body } = await fleet.call('probe_effect', {}, { fields: { ...fields, dry_run: true } });
    found = body.output.limits.budget.find((one) => one.scope.startsWith(`${name}:`));
    return found !== undefined && isThere(found);
  });
  return found;
}
