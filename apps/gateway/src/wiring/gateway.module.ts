import { Module, type CanActivate, type DynamicModule, type Provider } from '@nestjs/common';
import { APP_FILTER, APP_GUARD } from '@nestjs/core';
import { Clock } from '@toolfleet/resilience';
import { ApprovalsController } from '../http/approvals.controller.js';
import { CallsController } from '../http/calls.controller.js';
import { ErrorFilter } from '../server/error.filter.js';
import { OwnedRoutesController } from '../http/owned-routes.controller.js';
import { FleetController } from '../http/fleet.controller.js';
import { HealthController } from '../http/health.controller.js';
import { KeysController, MeController } from '../http/keys.controller.js';
import { PurgesController } from '../http/purges.controller.js';
import { ResultsController } from '../http/results.controller.js';
import { RulesController } from '../http/rules.controller.js';
import { FinishedCallsController } from '../http/finished-calls.controller.js';
import { ReplayController } from '../http/replay.controller.js';
import { MockFunctionController, ShannonController } from '../http/shannon.controller.js';
import { RolesController } from '../http/roles.controller.js';
import { UsersController } from '../http/users.controller.js';
import { SignInController } from '../http/sign-in.controller.js';
import { DeclarationsController } from '../http/declarations.controller.js';
import { CatalogController, ToolsController } from '../http/tools.controller.js';
import { ConnectionsController } from '../http/connections.controller.js';
import { TenantsController } from '../http/tenants.controller.js';
import { BudgetsController } from '../http/budgets.controller.js';
import { UsageController } from '../http/usage.controller.js';
import { CallEndpoint, SpendEndpoint } from '../nats/call.endpoint.js';

const CONTROLLERS = [
  ToolsController,
  ShannonController,
  CallsController,
  ApprovalsController,
  ResultsController,
  UsageController,
  BudgetsController,
  TenantsController,
  ConnectionsController,
  KeysController,
  PurgesController,
  MeController,
  RolesController,
  UsersController,
  SignInController,
  CatalogController,
  FinishedCallsController,
  ReplayController,
  RulesController,
  FleetController,
  OwnedRoutesController,
  DeclarationsController,
  HealthController,
  CallEndpoint,
  SpendEndpoint,
];

/** What wiring.ts hands to Nest. */
export interface GatewayModuleDeps {
  clock: Clock;
  /** Of every route, in their order. */
  guards: readonly CanActivate[];
  /** Local mode: smoke-test endpoints are served. */
  local: boolean;
  /** Long-lived objects; controllers and endpoints inject each by its class. */
  instances: readonly object[];
}

/**
 * The Nest side of the gateway: HTTP controllers and NATS endpoints, and the guards and filters of every request. Nest builds these
 * and what only they use; it injects the `instances` of wiring.ts by their classes.
 */
@Module({})
export class GatewayModule {
  static with({ clock, guards, local, instances }: GatewayModuleDeps): DynamicModule {
    const providers: Provider[] = [
      { provide: Clock, useValue: clock },
      ...instances.map((instance) => ({ provide: instance.constructor, useValue: instance })),
      { provide: APP_FILTER, useClass: ErrorFilter },
      ...guards.map((guard) => ({ provide: APP_GUARD, useValue: guard })),
    ];
    const controllers = local ? [...CONTROLLERS, MockFunctionController] : CONTROLLERS;
    return { module: GatewayModule, controllers, providers };
  }
}
