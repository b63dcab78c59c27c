import { Module, type DynamicModule } from '@nestjs/common';
import { Catalog } from './catalog.js';
import { DefinitionEndpoint } from './definition.endpoint.js';
import { PinPolicy } from './pin-policy.js';
import { AuditLog, QuarantineEndpoint } from './quarantine.endpoint.js';
import { Registrar } from './registrar.js';
import { Registrations } from './registrations.js';
import { FleetSources } from './sources/fleet-sources.js';
import { McpEndpoint, McpSeal } from './sources/mcp.endpoint.js';
import { McpSource } from './sources/mcp.source.js';
import { OpenApiEndpoint } from './sources/openapi.endpoint.js';
import { OpenApiSource } from './sources/openapi.source.js';

/** What the endpoints need, made by `parts`. */
export interface RegistryServices {
  catalog: Catalog;
  registrar: Registrar;
  registrations: Registrations;
  pins: PinPolicy;
  audit: AuditLog;
  sources: FleetSources;
  openapi: OpenApiSource;
  mcp: McpSource;
  mcpSeal: McpSeal;
}

/** The Nest side of the service: endpoints over what `parts` wires. */
@Module({})
export class RegistryModule {
  static with(services: RegistryServices): DynamicModule {
    return {
      module: RegistryModule,
      controllers: [DefinitionEndpoint, QuarantineEndpoint, OpenApiEndpoint, McpEndpoint],
      providers: [
        { provide: Catalog, useValue: services.catalog },
        { provide: Registrar, useValue: services.registrar },
        { provide: Registrations, useValue: services.registrations },
        { provide: PinPolicy, useValue: services.pins },
        { provide: AuditLog, useValue: services.audit },
        { provide: FleetSources, useValue: services.sources },
        { provide: OpenApiSource, useValue: services.openapi },
        { provide: McpSource, useValue: services.mcp },
        { provide: McpSeal, useValue: services.mcpSeal },
      ],
    };
  }
}
