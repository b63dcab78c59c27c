/**
 * The rules of deploy/alerts on outages and quiet times written as series: every outage alerts in time for its own fleet and no other,
 * quiet times stay quiet. All fleets share a Prometheus, so that each is next to healthy and broken ones. Prints the table of
 * docs/operations/alerts.md, and compares it. Needs promtool. `npm run test:failure` evaluates as often as production does, and a whole day.
 */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OUTAGES, QUIET_TIMES } from './outages.js';
import { evaluate, HAS_PROMTOOL, type FiredAlert } from './replayed-rules.js';
import { watchedFleet, type WatchOptions } from './watched-fleet.js';

const ALL = process.env['FAILURE_SEEDS'] === 'all';
/** Seconds between scrapes, and between evaluations: as in production, or half as often. */
const STEP_S = ALL ? 15 : 30;
/** Before an outage: alerts compare with the last hour. */
const HISTORY_S = 65 * 60;
const OUTAGE_S = 8 * 60;
const STEPS = (HISTORY_S + OUTAGE_S) / STEP_S;
const HOUR_S = 3_600;

const minutes = (seconds: number): string => (seconds / 60).toFixed(1).replace(/\.0$/, '');

describe.skipIf(!HAS_PROMTOOL)('alerts (needs promtool)', () => {
  /** What fired by name of the fleet's time, with the seconds since its beginning. */
  const fired = new Map<string, FiredAlert[]>();
  const table: string[] = [];

  beforeAll(async () => {
    const fleets = [
      ...OUTAGES.map(({ name, changes }) => ({ name, changes, from: HISTORY_S })),
      ...QUIET_TIMES.map(({ isFromStart, ...quiet }) => ({ ...quiet, from: isFromStart ? 0 : HISTORY_S })),
    ];
    // promtool works on one core.
    const halves = [0, 1].map((half) => fleets.filter((_, index) => index % 2 === half));
    const found = await Promise.all(halves.map((half) => alertsOf(half, STEP_S, STEPS)));
    for (const [name, list] of found.flatMap((half) => [...half])) fired.set(name, list);
  }, 600_000);
  afterAll(() => console.log(table.join('\n')));

  /** The alerts of each fleet; each has a namespace. */
  async function alertsOf(
    fleets: readonly (Omit<WatchOptions, 'namespace' | 'stepS' | 'steps'> & { name: string })[],
    stepS: number,
    steps: number,
  ): Promise<Map<string, FiredAlert[]>> {
    const namespaceOf = (name: string) => name.replaceAll(/\W+/g, '-');
    const input = fleets.flatMap((fleet) =>
      watchedFleet({ ...fleet, namespace: namespaceOf(fleet.name), stepS, steps }),
    );
    const all = await evaluate(input, stepS, steps);
    expect(all.filter(({ namespace }) => namespace === '')).toEqual([]);
    return new Map(
      fleets.map(({ name, from = 0 }) => [
        name,
        all
          .filter(({ namespace }) => namespace === namespaceOf(name))
          .map((one) => ({ ...one, seconds: one.seconds - from }))
          .toSorted((a, b) => a.seconds - b.seconds),
      ]),
    );
  }

  function note(name: string, alert: string, list: readonly FiredAlert[]): void {
    const found = list.find((one) => one.alert === alert)!;
    const rest = list.filter((one) => one !== found).map((one) => `${one.alert} ${minutes(one.seconds)}`);
    table.push(`| ${name} | ${alert} (${found.severity}) | ${minutes(found.seconds)} | ${rest.join(', ')} |`);
  }

  it.each(OUTAGES)('fire: $name', ({ name, alert, within = 5, isOnlyPage }) => {
    const list = fired.get(name)!;
    const found = list.find((one) => one.alert === alert);
    expect({ alert, found: found !== undefined, list }).toMatchObject({ found: true });
    note(name, alert, list);
    expect(list.filter(({ seconds }) => seconds < 0)).toEqual([]);
    expect(found!.seconds).toBeLessThanOrEqual(within * 60);
    const pages = list.filter(({ severity }) => severity === 'page');
    if (isOnlyPage) expect(pages.map((page) => page.alert)).toEqual([alert]);
  });

  it.each(QUIET_TIMES)('do not fire: $name', ({ name }) => {
    expect(fired.get(name)).toEqual([]);
  });

  it('of the slow kind fire within their windows, and not on a day with its night', async () => {
    const stepS = 60;
    const day = ALL ? 24 * HOUR_S : 6 * HOUR_S;
    const load = (at: number) => 0.55 - 0.45 * Math.cos((at / day) * 2 * Math.PI);
    const [burning, quiet] = await Promise.all([
      alertsOf(
        [
          {
            name: '1 % of calls fail',
            from: HOUR_S,
            changes: [['shannon_tool_executions_total status=system_error', 0.05]],
          },
        ],
        stepS,
        (6 * HOUR_S) / stepS,
      ),
      alertsOf([{ name: 'a day', load }], stepS, day / stepS),
    ]);
    expect(quiet.get('a day')).toEqual([]);
    const list = burning.get('1 % of calls fail')!;
    expect(list.map(({ alert, severity }) => `${alert} ${severity}`)).toEqual([
      'ErrorBudgetTrickle ticket',
      'ErrorBudgetSlowBurn page',
    ]);
    note('1 % of calls fail', 'ErrorBudgetSlowBurn', list);
  }, 600_000);

  it('are those of docs/operations/alerts.md', () => {
    const page = readFileSync(new URL('../../docs/operations/alerts.md', import.meta.url), 'utf8');
    const withoutMinutes = (row: string) => row.split('|').slice(0, 3).join('|');
    const rows = page
      .split('## Alerts by outage')[1]!
      .split('\n## ')[0]!
      .match(/^\| .*/gm)!
      .slice(2);
    expect(rows.map(withoutMinutes)).toEqual(table.map(withoutMinutes));
  });
});
