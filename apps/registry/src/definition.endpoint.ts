import { DEFINITION_REGISTER, type DefinitionRegister } from '@toolfleet/contracts/registry';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { endpoint, endpointsOf } from '@toolfleet/service/nats';
import { checkSender } from './announcements.js';
import type { Catalog } from './catalog.js';
import type { DefinitionService } from './definition-service.js';
import type { FleetSources } from './sources/fleet-sources.js';
import type { ToolsetService } from './toolset-service.js';

interface DefinitionParts {
  catalog: Catalog;
  definitions: DefinitionService;
  sources: FleetSources;
  toolsets: ToolsetService;
}

/** `registry.definition.*`, `registry.toolset.get` and `registry.purge`: reads for gateways, announcements of executors, and removal. */
export const definitionEndpoints = ({ catalog, definitions, sources, toolsets }: DefinitionParts) => [
  ...endpointsOf({
    'registry.definition.get': async ({ name, tenant_id, pending_revision }) => {
      await catalog.refresh();
      const tool = catalog.get(name, tenant_id);
      const isPending = pending_revision !== undefined;
      const shown = isPending && tool ? catalog.pending(tool, pending_revision) : tool;
      return { tool: shown, version: catalog.version };
    },
    'registry.definition.list': async (query) => {
      await catalog.refresh();
      return catalog.list(query ?? {});
    },
    'registry.definition.retire': async ({ source, names }) => ({
      removed: await (names ? definitions.remove(source, names) : sources.unregister(source)),
    }),
    'registry.toolset.get': async ({ tenant_id, name, version }) => ({
      toolset: await toolsets.get(tenant_id, name, version),
    }),
    // Sources belong to tenants; nothing here names a user.
    'registry.purge': async ({ tenant_id, user_id, dry_run }) => {
      if (user_id !== undefined) return { counts: {}, more: false };
      const counts = await sources.purgeTenant(tenant_id, dry_run);
      return { counts: { ...counts, toolsets: await toolsets.purgeTenant(tenant_id, dry_run) }, more: false };
    },
  }),
  endpoint(
    `${SUBJECTS.definitionRegister}.*`,
    async ({ source, definitions: tools, replace, ttl_ms }: DefinitionRegister, { subject }) => {
      checkSender(subject, source);
      // `options` is dropped: it could turn pinning off, and announced tools have no pins.
      return definitions.register({ source, definitions: tools, replace, ttl_ms });
    },
    { schema: DEFINITION_REGISTER },
  ),
];
