import { Controller } from '@nestjs/common';
import {
  DEFINITION_REGISTER,
  type DefinitionGet,
  type DefinitionList,
  type DefinitionRegister,
  type DefinitionRetire,
} from '@toolfleet/contracts/registry';
import type { ToolsetGet } from '@toolfleet/contracts/toolset';
import type { PurgeMessage } from '@toolfleet/contracts/purge';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { Endpoint, type EndpointContext } from '@toolfleet/transport';
import { checkSender } from './announcements.js';
import { Catalog } from './catalog.js';
import { DefinitionService } from './definition-service.js';
import { FleetSources } from './sources/fleet-sources.js';
import { ToolsetService } from './toolset-service.js';

/** `registry.definition.*`, `registry.toolset.get` and `registry.purge`: reads for gateways, announcements of executors, and removal. */
@Controller()
export class DefinitionEndpoint {
  constructor(
    private readonly catalog: Catalog,
    private readonly definitions: DefinitionService,
    private readonly sources: FleetSources,
    private readonly toolsets: ToolsetService,
  ) {}

  @Endpoint('registry.definition.get')
  async get({ name, tenant_id, pending_revision }: DefinitionGet) {
    await this.catalog.refresh();
    const tool = this.catalog.get(name, tenant_id);
    const isPending = pending_revision !== undefined;
    const shown = isPending && tool ? this.catalog.pending(tool, pending_revision) : tool;
    return { tool: shown, version: this.catalog.version };
  }

  @Endpoint('registry.definition.list')
  async list(query: DefinitionList | null | undefined) {
    await this.catalog.refresh();
    return this.catalog.list(query ?? {});
  }

  @Endpoint('registry.toolset.get')
  async getToolset({ tenant_id, name, version }: ToolsetGet) {
    return { toolset: await this.toolsets.get(tenant_id, name, version) };
  }

  @Endpoint(`${SUBJECTS.definitionRegister}.*`, { schema: DEFINITION_REGISTER })
  async register(message: DefinitionRegister, { subject }: EndpointContext) {
    const { source, definitions, replace, ttl_ms } = message;
    checkSender(subject, source);
    // `options` is dropped: it could turn pinning off, and announced tools have no pins.
    return this.definitions.register({ source, definitions, replace, ttl_ms });
  }

  @Endpoint('registry.definition.retire')
  async retire({ source, names }: DefinitionRetire) {
    return { removed: await (names ? this.definitions.remove(source, names) : this.sources.unregister(source)) };
  }

  /** Sources belong to tenants; nothing here names a user. */
  @Endpoint('registry.purge')
  async purge({ tenant_id, user_id, dry_run }: PurgeMessage) {
    if (user_id !== undefined) return { counts: {}, more: false };
    const counts = await this.sources.purgeTenant(tenant_id, dry_run);
    return { counts: { ...counts, toolsets: await this.toolsets.purgeTenant(tenant_id, dry_run) }, more: false };
  }
}
