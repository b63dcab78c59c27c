import { Module, type DynamicModule } from '@nestjs/common';
import { Catalog } from './catalog.js';
import { DefinitionEndpoint } from './definition.endpoint.js';
import { PinPolicy } from './pin-policy.js';
import { AuditLog, QuarantineEndpoint } from './quarantine.endpoint.js';
import { Registrar } from './registrar.js';

/** What the endpoints need, made by `parts`. */
export interface RegistryServices {
  catalog: Catalog;
  registrar: Registrar;
  pins: PinPolicy;
  audit: AuditLog;
}

/** The Nest side of the service: endpoints over what `parts` wires. */
@Module({})
export class RegistryModule {
  static with({ catalog, registrar, pins, audit }: RegistryServices): DynamicModule {
    return {
      module: RegistryModule,
      controllers: [DefinitionEndpoint, QuarantineEndpoint],
      providers: [
        { provide: Catalog, useValue: catalog },
        { provide: Registrar, useValue: registrar },
        { provide: PinPolicy, useValue: pins },
        { provide: AuditLog, useValue: audit },
      ],
    };
  }
}
