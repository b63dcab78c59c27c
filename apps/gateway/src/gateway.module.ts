import { Module, type DynamicModule, type Provider } from '@nestjs/common';
import { APP_FILTER, APP_GUARD } from '@nestjs/core';
import { Clock } from '@toolfleet/resilience';
import { NatsClient } from '@toolfleet/transport';
import { ApiKeys } from './auth/api-keys.js';
import { AuthGuard } from './auth/auth.guard.js';
import type { Authenticate } from './auth/authenticate.js';
import { RegisterAuth } from './auth/register-auth.js';
import { AsyncCalls } from './calls/async-calls.js';
import { BatchCalls } from './calls/batch-calls.js';
import { CallAccess } from './calls/call-access.js';
import { CallsController } from './calls/calls.controller.js';
import { SpendSlices } from './calls/spend-slices.js';
import { ToolCalls } from './calls/tool-calls.js';
import { ToolInventory } from './catalog/tool-inventory.js';
import { ToolList } from './catalog/tool-list.js';
import { ToolSearch } from './catalog/tool-search.js';
import { CatalogController } from './doors/http/catalog.controller.js';
import { ErrorFilter } from './doors/http/error.filter.js';
import { EventStreams } from './doors/http/event-streams.js';
import { FleetController } from './doors/http/fleet.controller.js';
import { HealthController, Readiness } from './doors/http/health.controller.js';
import { HttpCalls } from './doors/http/http-call.js';
import { KeysController } from './doors/http/keys.controller.js';
import { MeController, Tiers } from './doors/http/me.controller.js';
import { MockFunctionController } from './doors/http/mock-function.controller.js';
import {
  QuarantineController,
  ShannonSourcesController,
  SourceRegistrations,
  SourcesController,
} from './doors/http/sources.controller.js';
import { RecentCallsController } from './doors/http/recent-calls.controller.js';
import { ShannonController } from './doors/http/shannon.controller.js';
import { ToolsController } from './doors/http/tools.controller.js';
import { UsageController } from './doors/http/usage.controller.js';
import { CallEndpoint } from './doors/nats/call.endpoint.js';
import { NatsCalls } from './doors/nats/nats-calls.js';
import { SpendEndpoint } from './doors/nats/spend.endpoint.js';
import { KeyLimitGuard } from './limits/key-limit.guard.js';
import type { KeyLimits } from './limits/key-limits.js';
import type { Tier } from './limits/tiers.js';
import { FleetView } from './observe/fleet-view.js';
import type { OperatorViews } from './observe/operator-views.js';
import { RecentCallsFeed } from './observe/recent-calls-feed.js';
import { ToolLimits } from './observe/tool-limits.js';

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
