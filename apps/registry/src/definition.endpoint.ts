import { Controller } from '@nestjs/common';
import {
  SUBJECTS,
  type DefinitionGetReply,
  type DefinitionListReply,
  type DefinitionRegisterReply,
  type DefinitionRetireReply,
} from '@toolfleet/contracts';
import { Endpoint } from '@toolfleet/transport';
import { Catalog } from './catalog.js';
import { readGet, readList, readRegister, readRetire } from './messages.js';
import { Registrar } from './registrar.js';
import { FleetSources } from './sources/fleet-sources.js';

/** The NATS face of definitions: receives, delegates, answers. */
@Controller()
export class DefinitionEndpoint {
  constructor(
    private readonly catalog: Catalog,
    private readonly registrar: Registrar,
    private readonly sources: FleetSources,
  ) {}

  @Endpoint(SUBJECTS.definitionGet)
  async get(body: unknown): Promise<DefinitionGetReply> {
    const { name, tenant_id } = readGet(body);
    await this.catalog.refresh();
    return { tool: this.catalog.get(name, tenant_id), version: this.catalog.version };
  }

  @Endpoint(SUBJECTS.definitionList)
  async list(body: unknown): Promise<DefinitionListReply> {
    const query = readList(body);
    await this.catalog.refresh();
    return this.catalog.list(query);
  }

  @Endpoint(SUBJECTS.definitionRegister)
  register(body: unknown): Promise<DefinitionRegisterReply> {
    return this.registrar.register(readRegister(body));
  }

  @Endpoint(SUBJECTS.definitionRetire)
  async retire(body: unknown): Promise<DefinitionRetireReply> {
    const { source, names } = readRetire(body);
    return { removed: await (names ? this.registrar.remove(source, names) : this.sources.retire(source)) };
  }
}
