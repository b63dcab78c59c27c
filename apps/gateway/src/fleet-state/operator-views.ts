import { Audit, type EngineSettings, type RateLimiter } from '@toolfleet/engine';
import type { JobQueue } from '@toolfleet/queue';
import type { Clock } from '@toolfleet/resilience';
import type { LifecycleComponent } from '@toolfleet/service';
import { Heartbeat, type NatsClient, type SharedBreakers } from '@toolfleet/transport';
import type { CallAccess } from '../auth/call-access.js';
import type { DefinitionCache } from '../catalog/definition-cache.js';
import { ToolInventory } from '../catalog/tool-inventory.js';
import type { ToolList } from '../catalog/tool-list.js';
import { Audits } from '../engine/call-telemetry.js';
import { CallRecorder } from '../engine/call-recorder.js';
import { FleetView, FleetWatch, ToolLimits } from './fleet-view.js';
import { type RecentCalls, RecentCallsFeed } from '../recent-calls/recent-calls.js';

/** What operators see: tools with their properties, finished calls, queues and breakers, limits. */
export interface OperatorViews {
  inventory: ToolInventory;
  recentCalls: RecentCallsFeed;
  fleet: FleetView;
  limits: ToolLimits;
}

/** The call log, and beside it the record of recent calls unless that is switched off. */
export function callAudit(
  log: Audit,
  recentCalls: RecentCalls | undefined,
  clock: Clock,
): { audit: Audit; part: LifecycleComponent } {
  const recorder = recentCalls && new CallRecorder(recentCalls, clock);
  return {
    audit: recorder ? new Audits([log, recorder]) : log,
    part: { name: 'recent calls', drain: async () => recorder?.flush() },
  };
}

/** The views, and the parts that keep them current. */
export function operatorViews(ports: {
  nats: NatsClient;
  clock: Clock;
  cache: DefinitionCache;
  access: CallAccess;
  list: ToolList;
  recentCalls: RecentCalls | undefined;
  queues: readonly JobQueue[];
  breakers: SharedBreakers;
  rateLimiter: RateLimiter;
  settings: EngineSettings;
}): { views: OperatorViews; parts: LifecycleComponent[] } {
  const { nats, clock, cache, list, breakers } = ports;
  const watch = new FleetWatch(nats, clock);
  const beacon = new Heartbeat(nats, clock, {
    service: 'gateway',
    breakers: () => breakers.status(),
  });
  return {
    views: {
      inventory: new ToolInventory(cache),
      recentCalls: new RecentCallsFeed(ports.recentCalls, ports.access, clock),
      fleet: new FleetView(watch, ports.queues, list),
      limits: new ToolLimits(list, ports.rateLimiter, ports.settings),
    },
    parts: [{ name: 'state of the fleet', start: async () => watch.follow() }, beacon],
  };
}
