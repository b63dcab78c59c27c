/** A fleet under steady load of every lane, for specs that take one of its stores away: what must hold afterwards is judged here. */
import { NatsClient } from '@toolfleet/transport';
import { expect } from 'vitest';
import { noteOverHttp, programOverHttp, sumOverHttp, sumOverNats, unclear } from '../fleet/call-lanes.js';
import { startCountingMcpServer, type CountingMcpServer } from '../fleet/counting-mcp-server.js';
import { steadyLoad, type SteadyLoad, type Verdict } from '../fleet/steady-load.js';
import { TestFleet, type FleetBrokers, type FleetOptions } from '../fleet/test-fleet.js';

const DEADLINE_MS = 8_000;
/** Promise D, and what HTTP and a busy test machine add. */
const GRACE_MS = 3_000;
const LANES = 2;

/** Processes of each service. */
export const LOADED_SERVICES = {
  ...{ gateway: 2, registry: 1, budget: 1 },
  ...{ 'builtin-executor': 1, 'mcp-executor': 1, 'python-sandbox': 1 },
} as const;

/** Load that runs while a store is unavailable. */
export interface FaultLoad extends SteadyLoad {
  /** Ends the load and judges it: clear errors in time, no effect twice, and then nothing fails any more. */
  judge(): Promise<void>;
}

/** The fleet with an upstream that counts effects and an agent at NATS. */
export class LoadedFleet {
  private constructor(
    readonly fleet: TestFleet,
    private readonly upstream: CountingMcpServer,
    private readonly agent: NatsClient,
  ) {}

  static async start(brokers: FleetBrokers, more: Partial<FleetOptions> = {}): Promise<LoadedFleet> {
    const upstream = await startCountingMcpServer();
    const fleet = await TestFleet.start({
      services: LOADED_SERVICES,
      tools: ['calculator', 'sample_save_note', 'execute_python'],
      config: { mcp_servers: { sample: { url: `${upstream.origin}/mcp` } } },
      brokers,
      ...more,
      env: {
        EGRESS_ALLOWED_ENDPOINTS: upstream.origin,
        GATEWAY_CALL_TIMEOUT_MS: String(DEADLINE_MS),
        PYTHON_EXECUTOR_RATE_LIMIT: '1000000',
        ...more.env,
      },
    });
    const agent = await NatsClient.connect({ url: (brokers.nats ?? fleet.nats).url, name: 'agent' });
    return new LoadedFleet(fleet, upstream, agent);
  }

  /** Starts the load and waits until it flows without a failure. */
  async load(): Promise<FaultLoad> {
    const told = new Map<string, Verdict>();
    const effectsBefore = new Map(this.upstream.notes);
    const load = this.lanes(told);
    await load.flows(50);
    expect(load.failures).toEqual([]);
    return { ...load, judge: () => this.judge(load, told, effectsBefore) };
  }

  /** How often the effect of this note was had. */
  effects(note: string): number {
    return this.upstream.notes.get(note) ?? 0;
  }

  async stop(): Promise<void> {
    await this.agent.close();
    await this.fleet.stop();
    await this.upstream.stop();
  }

  private lanes(told: Map<string, Verdict>): SteadyLoad {
    const { fleet, agent } = this;
    const noting = noteOverHttp(fleet, 'sample_save_note', told);
    return steadyLoad([sumOverHttp(fleet), sumOverNats(agent, fleet.adminKey), programOverHttp(fleet), noting], LANES);
  }

  private async judge(
    load: SteadyLoad,
    told: ReadonlyMap<string, Verdict>,
    effectsBefore: ReadonlyMap<string, number>,
  ): Promise<void> {
    await load.stop();
    expect(unclear(load.failures)).toEqual([]);
    expect(load.slowestMs()).toBeLessThan(DEADLINE_MS + GRACE_MS);
    for (const [text, verdict] of told) {
      const effects = (this.upstream.notes.get(text) ?? 0) - (effectsBefore.get(text) ?? 0);
      expect(effects, `${text}, told ${verdict ?? 'success'}`).toBeLessThanOrEqual(1);
      if (verdict === undefined) expect(effects, text).toBe(1);
    }
    const again = this.lanes(new Map());
    await again.flows(100);
    await again.stop();
    expect(again.failures).toEqual([]);
  }
}
