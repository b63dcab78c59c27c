import { Controller } from '@nestjs/common';
import type {
  DefinitionGetReply,
  DefinitionListReply,
  DefinitionRegisterReply,
  DefinitionRetireReply,
} from '@toolfleet/contracts/registry';
import { readPurge, type PurgeReply } from '@toolfleet/contracts/purge';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { Endpoint, type EndpointContext } from '@toolfleet/transport';
import { checkSender } from './announcements.js';
import { Catalog } from './catalog.js';
import { readGet, readList, readRegister, readRetire } from './messages.js';
import { DefinitionService } from './definition-service.js';
import { FleetSources } from './sources/fleet-sources.js';
import { ToolsetService } from './toolset-service.js';

/** `registry.definition.*` and `registry.purge`: reads for gateways, announcements of executors, and removal. */
@Controller()
export class DefinitionEndpoint {
  constructor(
    private readonly catalog: Catalog,
    private readonly definitions: DefinitionService,
    private readonly sources: FleetSources,
    private readonly toolsets: ToolsetService,
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

  @Endpoint(`${SUBJECTS.definitionRegister}.*`)
  async register(body: unknown, { subject }: EndpointContext): Promise<DefinitionRegisterReply> {
    const { source, definitions, replace, ttl_ms } = readRegister(body);
    checkSender(subject, source);
    // `options` is dropped: it could turn pinning off, and announced tools have no pins.
    return this.definitions.register({ source, definitions, replace, ttl_ms });
  }

  @Endpoint(SUBJECTS.definitionRetire)
  async retire(body: unknown): Promise<DefinitionRetireReply> {
    const { source, names } = readRetire(body);
    return { removed: await (names ? this.definitions.remove(source, names) : this.sources.unregister(source)) };
  }

  /** Sources belong to tenants; nothing here names a user. */
  @Endpoint(SUBJECTS.registryPurge)
  async purge(body: unknown): Promise<PurgeReply> {
    const { tenant_id, user_id, dry_run } = readPurge(body);
    if (user_id !== undefined) return { counts: {}, more: false };
    const counts = await this.sources.purgeTenant(tenant_id, dry_run);
    return { counts: { ...counts, toolsets: await this.toolsets.purgeTenant(tenant_id, dry_run) }, more: false };
  }
}
