import { describe, expect, it } from 'vitest';
import { RESULT, routes, run, seen, serveGateway } from '../fleetctl.fixture.js';

serveGateway();

const CALL = {
  cursor: '7',
  call_id: 'c1',
  ended_at: '2026-01-31T12:00:00.000Z',
  tenant_id: 'acme',
  user_id: 'ann',
  tool: 'calculator',
  entry_point: 'http',
  origin: 'public',
  status: 'tool_error',
  outcomes: { transport: 'delivered', protocol: 'ok', tool: 'failed' },
  code: 'TOOL_ERROR',
  error: 'Division by zero',
  attempts: 2,
  retried: [{ attempt: 1, error: 'no answer', delay_ms: 250 }],
  duration_ms: 812.4,
  stages: { admit_ms: 1, wait_ms: 250, queue_ms: 0, execute_ms: 560, rest_ms: 1.4 },
  cost_usd: 0.001,
  tokens: 7,
};
const answer = (body: object) => () => ({ status: 200, body });
const page = (calls: object[], next?: string) => ({ enabled: true, calls, next });

describe('calls', () => {
  it('are not asked for when a time cannot be read', async () => {
    const { code, error } = await run(['calls', '--from', 'yesterday']);
    expect([code, error]).toEqual([2, expect.stringContaining('so long ago: 30m, 2h, 7d')]);
    expect(seen).toEqual([]);
  });

  it('are listed by filters, with how to go on', async () => {
    routes.set('GET /api/v1/calls', answer(page([CALL], '7')));
    const filters = ['--tool', 'calculator', '--user', 'ann', '--status', 'failure', '--slower-than-ms', '500'];
    const { code, out, error } = await run(['calls', ...filters, '--from', '2h', '--limit', '5']);
    expect([code, error]).toEqual([0, 'Older calls: --before 7\n']);
    expect(out).toMatch(
      /ENDED .* CALL\n2026-01-31T12:00:00.000Z +acme +ann +calculator +TOOL_ERROR +812 +0.001 +c1\n$/,
    );
    const query = new URLSearchParams(seen[0]!.path.split('?')[1]);
    expect(Date.now() - Date.parse(query.get('from')!)).toBeGreaterThanOrEqual(7_200_000);
    query.delete('from');
    expect(Object.fromEntries(query)).toEqual({
      tool: 'calculator',
      user_id: 'ann',
      status: 'failure',
      slower_than_ms: '500',
      limit: '5',
    });
    expect(JSON.parse((await run(['calls', 'list', '--json'])).out)).toEqual(page([CALL], '7'));
    expect(await run(['calls', '--limit', 'x'])).toMatchObject({ code: 2, error: expect.stringContaining('--limit') });
    routes.set('GET /api/v1/calls', answer({ enabled: false, calls: [] }));
    expect(await run(['calls'])).toMatchObject({ code: 1, error: expect.stringContaining('records no calls') });
  });

  it('are summed', async () => {
    const sum = {
      tool: 'calculator',
      calls: 12,
      failures: 3,
      cost_usd: 0.5,
      tokens: 7,
      mean_ms: 20.5,
      p50_ms: 18,
      p95_ms: 250,
      max_ms: 900,
    };
    const groups = { rows: [sum, { ...sum, tool: 'crm_get', calls: 2 }], since: '2026-01-30T00:00:00.000Z' };
    routes.set('GET /api/v1/calls', answer({ ...page([CALL], '7'), groups }));
    expect(await run(['calls', 'sum', '--by', 'tool', '--status', 'failure'])).toEqual({
      code: 0,
      out: [
        'TOOL        CALLS  FAILED  USD  TOKENS  MEAN MS  P50 MS  P95 MS  MAX MS',
        'calculator     12       3  0.5       7     20.5      18     250     900',
        'crm_get         2       3  0.5       7     20.5      18     250     900',
        '',
      ].join('\n'),
      error: 'Only calls since 2026-01-30T00:00:00.000Z: older ones are too many for one request\n',
    });
    expect(seen[0]!.path).toBe('/api/v1/calls?status=failure&group_by=tool&limit=1');
    expect(JSON.parse((await run(['calls', 'sum', '--by', 'tool', '--json'])).out)).toEqual(groups);
    expect((await run(['calls', 'sum'])).code).toBe(2);
  });

  it('are shown with their attempts, their children and the result that is kept', async () => {
    const made = [{ ...CALL, call_id: 'c2', tool: 'crm_get', status: 'success', code: undefined }];
    routes.set('GET /api/v1/calls/c1/record', answer({ call: { ...CALL, key_id: 'k1' }, made }));
    const { code, out } = await run(['calls', 'show', 'c1']);
    expect(code).toBe(0);
    for (const line of [
      'c1  calculator  TOOL_ERROR',
      'stages    admit 1, wait 250, queue 0, execute 560, rest 1.4 ms',
      'error     Division by zero',
      'caller    ann, key k1 of acme, over http',
      'attempt 1 no answer; again after 250 ms',
      'made      2026-01-31T12:00:00.000Z  c2  ann  crm_get  success  812 ms',
    ])
      expect(out.split('\n')).toContain(line);
    routes.set('GET /api/v1/calls/c1', answer({ call_id: 'c1', status: 'succeeded', result: RESULT }));
    const withResult = await run(['calls', 'show', 'c1']);
    expect(withResult).toMatchObject({ code: 0, out: '42\n', error: expect.stringContaining('made      2026') });
    expect(JSON.parse((await run(['calls', 'show', 'c1', '--json'])).out)).toMatchObject({
      state: { status: 'succeeded' },
      record: { call: { call_id: 'c1' } },
    });
    expect(await run(['calls', 'show', 'c9'])).toMatchObject({ code: 1, out: '' });
  });

  it('are replayed to the last page, or as many as are asked for', async () => {
    routes.set('GET /api/v1/calls', ({ path }) => {
      const query = new URLSearchParams(path.split('?')[1]);
      const [id, next] = query.get('before') === null ? ['c2', '7'] : ['c1', undefined];
      return { status: 200, body: page([{ ...CALL, call_id: id }], next) };
    });
    const answered = { tool: 'calculator', result: RESULT, revision: { before: 'r', now: 'r' }, changes: [] };
    for (const id of ['c1', 'c2'])
      routes.set(`POST /api/v1/calls/${id}/replay`, answer({ ...answered, call_id: `${id}-again`, replay_of: id }));
    const replayed = async (...options: string[]) =>
      [...(await run(['calls', 'replay', '--rate', '1000', ...options])).out.matchAll(/^(c\d) ->/gm)].map(
        ([, id]) => id,
      );
    expect(await replayed()).toEqual(['c1', 'c2']);
    expect(await replayed('--limit', '1')).toEqual(['c2']);
  });

  it('are exported page by page, also as a table that holds no formulas', async () => {
    const hostile = { ...CALL, call_id: 'c2', user_id: '=1+1', error: '\t@SUM(A1), "x"\nnext' };
    const pages = new Map<string | null, object>([
      ['0', page([CALL], '7')],
      ['7', page([], '8')],
      ['8', page([hostile])],
    ]);
    routes.set('GET /api/v1/calls', ({ path }) => ({
      status: 200,
      body: pages.get(new URLSearchParams(path.split('?')[1]).get('after')),
    }));
    const lines = (await run(['calls', 'export', '--tool', 'calculator'])).out.trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line))).toEqual([CALL, hostile]);
    expect(seen.every(({ path }) => path.includes('tool=calculator') && path.includes('limit=500'))).toBe(true);
    const [head, first, ...second] = (await run(['calls', 'export', '--format', 'csv'])).out.split('\n');
    expect(head).toMatch(
      /^ended_at,call_id,.*,cost_usd,tokens,body_bytes,transport_outcome,.*,rest_ms,roles,policy_rules,interceptions$/,
    );
    expect(first).toMatch(
      /^2026-01-31T12:00:00.000Z,c1,.*,Division by zero,.*,0.001,7,,delivered,ok,failed,1,250,0,560,1.4,,,$/,
    );
    expect(second.join('\n')).toContain(`,'=1+1,`);
    expect(second.join('\n')).toContain(`,"'\t@SUM(A1), ""x""\nnext",`);
    expect((await run(['calls', 'export', '--format', 'xls'])).code).toBe(2);
  });

  it('are followed from the last ones until Ctrl-C', async () => {
    routes.set('GET /api/v1/calls', answer(page([CALL])));
    let opened = 0;
    routes.set('GET /api/v1/calls/events', () => {
      if ((opened += 1) > 1) process.emit('SIGINT');
      const body =
        opened > 1 ? '' : `id: 8\nevent: call\ndata: ${JSON.stringify({ ...CALL, call_id: 'c2', cursor: '8' })}\n\n`;
      return { status: 200, type: 'text/event-stream', body };
    });
    const { code, out } = await run(['calls', 'tail']);
    expect(code).toBe(130);
    expect(out).toBe(
      ['c1', 'c2'].map((id) => `2026-01-31T12:00:00.000Z  ${id}  ann  calculator  TOOL_ERROR  812 ms\n`).join(''),
    );
  });
});
