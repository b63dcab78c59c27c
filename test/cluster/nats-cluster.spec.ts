/**
 * The fleet on three NATS nodes with the users of deploy/, each killed in turn under load over HTTP and NATS: at most the calls in flight fail, each
 * with a clear code, what provably did not start is tried again, no effect begins twice, and nothing has to be restarted.
 */
import { NatsClient } from '@toolfleet/transport';
import { passwordFor, startNatsCluster, type NatsCluster } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { noteOverHttp, sumOverHttp, sumOverNats, unclear } from '../fleet/call-lanes.js';
import { startCountingMcpServer, type CountingMcpServer } from '../fleet/counting-mcp-server.js';
import { steadyLoad, type Verdict } from '../fleet/steady-load.js';
import { TestFleet } from '../fleet/test-fleet.js';

const LANES = 3;
/** Kinds of callers below: HTTP, NATS, calls with an effect. */
const KINDS = 3;

let cluster: NatsCluster;
let upstream: CountingMcpServer;
let fleet: TestFleet;
let agent: NatsClient;
beforeAll(async () => {
  [cluster, upstream] = await Promise.all([startNatsCluster(), startCountingMcpServer()]);
  fleet = await TestFleet.start({
    services: { gateway: 2, registry: 2, budget: 1, 'builtin-executor': 2, 'mcp-executor': 2 },
    tools: ['calculator', 'sample_save_note'],
    config: { mcp_servers: { sample: { url: `${upstream.origin}/mcp` } } },
    env: { EGRESS_ALLOWED_ENDPOINTS: upstream.origin, GATEWAY_TRUST_TENANT_SUBJECTS: 'true' },
    brokers: { nats: cluster },
  });
  agent = await NatsClient.connect({ url: cluster.url, name: 'agent', user: 'acme', password: passwordFor('acme') });
});
afterAll(async () => {
  await agent?.close();
  await fleet?.stop();
  await Promise.all([cluster?.stop(), upstream?.stop()]);
});

/** Nothing fails any more. */
async function steadyAgain(): Promise<void> {
  const load = steadyLoad([sumOverHttp(fleet), sumOverNats(agent, fleet.adminKey, 'tool.call.acme')], LANES);
  await load.flows(100);
  await load.stop();
  expect(load.failures).toEqual([]);
}

describe('a node of the NATS cluster', () => {
  it.each([0, 1, 2])(
    'killed under load (node %i): only calls in flight may fail, and everybody goes on',
    async (node) => {
      const told = new Map<string, Verdict>();
      const effectsBefore = new Map(upstream.notes);
      const load = steadyLoad(
        [
          sumOverHttp(fleet),
          sumOverNats(agent, fleet.adminKey, 'tool.call.acme'),
          noteOverHttp(fleet, 'sample_save_note', told),
        ],
        LANES,
      );
      await load.flows(100);
      expect(load.failures).toEqual([]);

      await cluster.nodes[node]!.kill();
      await load.flows(300);
      await cluster.nodes[node]!.restart();
      await cluster.untilMeshed();
      await load.flows(100);
      await load.stop();
      expect(unclear(load.failures)).toEqual([]);
      expect(load.failures.length, load.failures.join()).toBeLessThanOrEqual(KINDS * LANES);
      // Reserving is repeated: a call that did not get its budget has provably not started.
      expect(load.failures).not.toContain('BUDGET_UNAVAILABLE');
      await steadyAgain();

      for (const [text, verdict] of told) {
        const effects = (upstream.notes.get(text) ?? 0) - (effectsBefore.get(text) ?? 0);
        expect(effects, `${text}, told ${verdict ?? 'success'}`).toBeLessThanOrEqual(1);
        if (verdict === undefined) expect(effects, text).toBe(1);
      }
      console.log(`node ${node}: ${load.right()} right, failed: ${load.failures.join(', ') || 'none'}`);
    },
  );
});
