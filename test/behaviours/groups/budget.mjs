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
      name: 'a free call that succeeds',
      reliance: 'one row with cost 0 and 100 tokens',
      expected: { answer: 0, row: 0, rows: 1, metric: 0, tokens: [100, 100], success: [true, true] },
      see: (fleet) => amounts(fleet, 'probe_default'),
      needs: 'own',
    },
    {
      name: 'a free call that fails',
      reliance: 'an execution has a row also when it failed and cost nothing',
      expected: { answer: 0, row: 0, rows: 1, metric: 0, success: [false, false] },
      see: (fleet) => amounts(fleet, 'probe_rejects'),
      needs: 'own',
    },
    {
      name: 'a priced call',
      reliance: 'the same amount in answer, row and metric',
      expected: { answer: 1_000, row: 1_000, rows: 1, metric: 1_000 },
      see: (fleet) => amounts(fleet, 'probe_effect'),
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
      name: 'a reported cost above the price',
      reliance: 'never beyond the reservation, and the same amount in answer, row and metric',
      expected: { answer: 1_000, row: 1_000, rows: 1, metric: 1_000 },
      see: (fleet) => amounts(fleet, 'probe_overcharges'),
      needs: 'own',
    },
    {
      name: 'an upstream that cannot be reached',
      reliance: 'costs nothing, and is an execution with a row',
      expected: { answer: 0, row: 0, rows: 1, metric: 0 },
      see: (fleet) => amounts(fleet, 'up_unreachable', { key: undefined, text: fleet.fresh() }),
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
      name: 'code that the strictness refuses',
      reliance: 'what the fleet itself refused costs nothing',
      expected: { answer: 0, metric: 0 },
      see: (fleet) => amounts(fleet, 'execute_python', { key: undefined, code: `import os # ${fleet.fresh()}` }),
      needs: 'own',
    },
    {
      name: 'Python that raises',
      reliance: 'a run that consumed the executor costs its price',
      expected: { answer: 1_000, row: 1_000, metric: 1_000 },
      see: (fleet) =>
        amounts(fleet, 'execute_python', { key: undefined, code: `raise ValueError("${fleet.fresh()}")` }),
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
      name: 'a dry run',
      reliance: 'it is not an execution: nothing runs, no row, no metric, no log line of a call',
      expected: { dry_run: true, cost: 0.001, runs: 0, rows: 0, executions: 0 },
      async see(fleet) {
        const key = fleet.fresh();
        let answer;
        const executions = await fleet.growth(
          'shannon_tool_executions_total',
          { tool_name: 'probe_effect' },
          async () => {
            answer = await fleet.call('probe_effect', { key }, { fields: { dry_run: true } });
          },
        );
        const { body } = await fleet.call('probe_runs', { name: `effect ${key}` });
        return {
          dry_run: answer.body.output.dry_run,
          cost: answer.body.output.cost.cost_usd,
          runs: body.output.runs,
          rows: (await fleet.ledger(answer.body.call_id ?? 'none', 500)).length,
          executions,
        };
      },
      needs: 'own',
    },
    {
      name: 'an asynchronous call',
      reliance: 'its admission does not count as an execution: one execution in metrics, one row',
      expected: { executions: 1, rows: 1 },
      async see(fleet) {
        let id;
        const executions = await fleet.growth(
          'shannon_tool_executions_total',
          { tool_name: 'probe_effect' },
          async () => {
            const { body } = await fleet.call('probe_effect', { key: fleet.fresh() }, { fields: { mode: 'async' } });
            id = body.call_id;
            await fleet.ended(id);
            await fleet.callLine(id);
          },
        );
        return { executions, rows: (await fleet.ledger(id)).length };
      },
      needs: 'own',
    },
    {
      name: 'the replay of an idempotency key',
      reliance: 'it shows the usage of the first call with a mark, and is charged once',
      expected: {
        first: { tokens: 500, cost_usd: 0.001 },
        replay: { tokens: 500, cost_usd: 0.001 },
        mark: true,
        header: 'true',
        rows: 1,
      },
      async see(fleet) {
        const key = fleet.fresh();
        const send = () => fleet.call('probe_effect', { key }, { headers: { 'idempotency-key': key } });
        const first = await send();
        const again = await send();
        return {
          first: first.body.usage,
          replay: again.body.usage,
          mark: again.body.metadata.idempotent_replay,
          header: again.headers['x-idempotency-cached'],
          rows: (await fleet.ledger(first.body.call_id)).length,
        };
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
      name: 'a limit that concurrent calls reach',
      reliance: 'exactly as many calls as the limit pays for, and 402 for the others',
      expected: { paid: 10, refused: 5, code: 'BUDGET_EXCEEDED', scope: 'tenant', after: 402 },
      async see(fleet) {
        // The configuration gives this tenant 0.01 USD: ten calls at 0.001.
        const key = await fleet.key('spender', { tenant_id: 'small' });
        const send = () => fleet.call('probe_effect', { key: fleet.fresh() }, { key });
        const answers = await Promise.all(Array.from({ length: 15 }, send));
        const refused = answers.filter(({ status }) => status === 402);
        return {
          paid: answers.filter(({ status }) => status === 200).length,
          refused: refused.length,
          code: refused[0]?.body.code,
          scope: refused[0]?.body.details.scope,
          after: (await fleet.call('probe_default', { key: fleet.fresh() }, { key })).status,
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
