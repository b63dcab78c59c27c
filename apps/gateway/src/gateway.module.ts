import { Module, type DynamicModule, type Provider } from '@nestjs/common';
import { APP_FILTER, APP_GUARD } from '@nestjs/core';
import { Clock } from '@toolfleet/resilience';
import { NatsClient } from '@toolfleet/transport';
import { ApiKeys } from './auth/api-keys.js';
import { AuthGuard, KeyLimitGuard } from './auth/auth.guard.js';
import type { Authenticate } from './auth/authenticate.js';
import { RegisterAuth } from './auth/register-auth.js';
import { AsyncCalls } from './async/async-calls.js';
import { BatchCalls, ToolCalls } from './tool-calls.js';
import { CallAccess } from './auth/call-access.js';
import { CallsController } from './http/calls.controller.js';
import { SpendSlices } from './engine/spend-slices.js';
import { ToolInventory } from './catalog/tool-inventory.js';
import { ToolList, ToolSearch } from './catalog/tool-list.js';
import { CatalogController, ToolsController } from './http/tools.controller.js';
import { ErrorFilter } from './http/error.filter.js';
import { EventStreams } from './http/event-streams.js';
import { FleetController } from './http/fleet.controller.js';
import { HealthController, Readiness } from './http/health.controller.js';
import { HttpCalls } from './http/http-call.js';
import { KeysController, MeController, Tiers } from './http/keys.controller.js';
import { MockFunctionController, ShannonController } from './http/shannon.controller.js';
import {
  QuarantineController,
  ShannonSourcesController,
  SourceRegistrations,
  SourcesController,
} from './http/sources.controller.js';
import { RecentCallsController } from './http/recent-calls.controller.js';
import { UsageController } from './http/usage.controller.js';
import { CallEndpoint, SpendEndpoint } from './nats/call.endpoint.js';
import { NatsCalls } from './nats/nats-calls.js';
import { type KeyLimits, type Tier } from './auth/key-limits.js';
import { FleetView, ToolLimits } from './fleet-state/fleet-view.js';
import type { OperatorViews } from './fleet-state/operator-views.js';
import { RecentCallsFeed } from './recent-calls/recent-calls.js';

/** What `parts.ts` wires and the Nest shells need. */
export interface GatewayWiring {
  clock: Clock;
  nats: NatsClient;
  authenticate: Authenticate;
  keys: ApiKeys;
  keyLimits: KeyLimits;
  tiers: Readonly<Record<string, Tier>>;
  list: ToolList;
  search: ToolSearch;
  calls: ToolCalls;
  batches: BatchCalls;
  asyncCalls: AsyncCalls;
  access: CallAccess;
  httpCalls: HttpCalls;
  natsCalls: NatsCalls;
  spendSlices: SpendSlices;
  readiness: Readiness;
  registerAuth: RegisterAuth;
  streams: EventStreams;
  views: OperatorViews;
  /** Local mode: smoke-test endpoints are served. */
  local: boolean;
}

/** The Nest side of the gateway: the HTTP and NATS doors. */
@Module({})
export class GatewayModule {
  static with(wiring: GatewayWiring): DynamicModule {
    const provided: [new (...args: never[]) => object, object][] = [
      [NatsClient as never, wiring.nats],
      [ApiKeys, wiring.keys],
      [ToolList, wiring.list],
      [ToolSearch, wiring.search],
      [ToolCalls, wiring.calls],
      [BatchCalls, wiring.batches],
      [AsyncCalls, wiring.asyncCalls],
      [CallAccess, wiring.access],
      [HttpCalls, wiring.httpCalls],
      [NatsCalls, wiring.natsCalls],
      [SpendSlices, wiring.spendSlices],
      [RegisterAuth, wiring.registerAuth],
      [EventStreams, wiring.streams],
      [Tiers, new Tiers(wiring.tiers)],
      [ToolInventory, wiring.views.inventory],
      [RecentCallsFeed, wiring.views.recentCalls],
      [FleetView, wiring.views.fleet],
      [ToolLimits, wiring.views.limits],
      [SourceRegistrations, new SourceRegistrations(wiring.nats, wiring.registerAuth)],
    ];
    const providers: Provider[] = [
      ...provided.map(([provide, useValue]) => ({ provide, useValue })),
      { provide: Clock, useValue: wiring.clock },
      { provide: Readiness, useValue: wiring.readiness },
      { provide: APP_FILTER, useClass: ErrorFilter },
      { provide: APP_GUARD, useValue: new AuthGuard(wiring.authenticate) },
      // After authentication: guards run in this order.
      { provide: APP_GUARD, useValue: new KeyLimitGuard(wiring.keyLimits, wiring.tiers) },
    ];
    return {
      module: GatewayModule,
      controllers: [
        ToolsController,
        ShannonSourcesController,
        ShannonController,
        CallsController,
        UsageController,
        KeysController,
        MeController,
        CatalogController,
        RecentCallsController,
        FleetController,
        SourcesController,
        QuarantineController,
        HealthController,
        CallEndpoint,
        SpendEndpoint,
        ...(wiring.local ? [MockFunctionController] : []),
      ],
      providers,
    };
  }
}
