/**
 * A real Prometheus watches a running fleet to which everything happens: every panel, recording rule and autoscaler finds
 * data, and every alert asks for metrics that exist. The rules are evaluated as they are deployed.
 */
import { eventually } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  alertMetrics,
  panelQueries,
  recordedQueries,
  RULE_FILE,
  scalerQueries,
  type AskedQuery,
} from './asked-queries.js';
import { startEventfulFleet, type EventfulFleet } from './eventful-fleet.js';
import { HAS_PROMETHEUS, startPrometheus, type PrometheusServer } from './prometheus-server.js';

describe.skipIf(!HAS_PROMETHEUS)('metrics of a running fleet (needs prometheus)', () => {
  let events: EventfulFleet;
  let prometheus: PrometheusServer;
  beforeAll(async () => {
    [events, prometheus] = await Promise.all([startEventfulFleet(), startPrometheus(RULE_FILE)]);
    const watch = setInterval(watchAll, 500);
    try {
      watchAll();
      // Once is a value, twice is a rate.
      await events.happen();
      await events.happen();
    } finally {
      clearInterval(watch);
    }
  });
  afterAll(async () => {
    await prometheus?.stop();
    await events?.stop();
  });

  function watchAll(): void {
    const targets = [...events.fleet.running].flatMap(([name, processes]) =>
      processes.map((process, index) => ({
        address: `127.0.0.1:${String(process.facts['admin_port'])}`,
        workload: name === 'builtin-executor' ? ['builtin-web', 'builtin-compute'][index]! : name,
      })),
    );
    prometheus.setTargets(targets);
  }

  /** Queries without any finite number so far. */
  const empty = async (queries: readonly AskedQuery[]) => {
    const found = await Promise.all(queries.map(({ expression }) => prometheus.hasData(expression)));
    return queries.filter((_, index) => !found[index]);
  };
  const expectData = async (queries: readonly AskedQuery[]) => {
    expect(queries.length).toBeGreaterThan(0);
    let missing = queries;
    await eventually('every query has data', async () => (missing = await empty(missing)).length === 0, {
      everyMs: 1_000,
    }).catch(() => undefined);
    expect(missing.map(({ at, expression }) => `${at}: ${expression}`)).toEqual([]);
  };

  it('show in every panel of every dashboard', () => expectData(panelQueries()));
  it('show in every recording rule', () => expectData(recordedQueries()));
  it('show in every query of an autoscaler', () => expectData(scalerQueries()));

  it('are there for every alert', async () => {
    const names = await prometheus.names();
    expect((await alertMetrics()).filter(({ metric }) => !names.has(metric))).toEqual([]);
  });

  it('are evaluated without a fault', async () => {
    const rules = await prometheus.rules();
    expect(rules.length).toBeGreaterThan(20);
    expect(rules.filter(({ health }) => health !== 'ok')).toEqual([]);
  });
});
