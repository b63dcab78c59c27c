import type { DefinitionChanged } from '@toolfleet/contracts/registry';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { ToolCatalog, type ResolvedTool } from '@toolfleet/engine';
import type { NatsClient } from '@toolfleet/transport';
import { isJsonObject, type Principal } from '@toolfleet/contracts';
import type { ServedToolset } from '@toolfleet/contracts/toolset';
import type { DefinitionCache, DefinitionSource, ReadList } from './definition-cache.js';
import { withSimilarTools } from './similar-tools.js';
import type { ToolList } from './tool-list.js';
import { hasToolset, type Toolsets, type ToolsetSource } from './toolsets.js';

const ASKED = { timeoutMs: 5_000 };
/** Definitions per page; the registry also bounds a page by bytes. */
const PAGE = 500;

/** Reads definitions and toolsets from the registry over NATS. */
export class RegistrySource implements DefinitionSource, ToolsetSource {
  private readonly own: readonly RegisteredTool[];

  /**
   * @param complete adds the defaults and limits of this fleet to a definition, as a tenant sees it
   * @param own tools that the gateway serves itself; no other tool can have their names
   */
  constructor(
    private readonly nats: NatsClient,
    private readonly complete: (tool: RegisteredTool, tenantId: string) => RegisteredTool = (tool) => tool,
    own: readonly RegisteredTool[] = [],
  ) {
    this.own = own.map((tool) => complete(tool, ''));
  }

  /** The prompts and resources of MCP servers, apart from the list of tools. */
  get features(): DefinitionSource {
    return {
      get: (name, tenantId) => this.get(name, tenantId),
      list: async (tenantId, known) => inOrder(await this.listAll(tenantId, true, known)),
    };
  }

  async get(name: string, tenantId: string): Promise<RegisteredTool | null> {
    const own = this.own.find((tool) => tool.name === name);
    if (own) return own;
    const { tool } = await this.nats.ask('registry.definition.get', { name, tenant_id: tenantId }, ASKED);
    return tool && this.complete(tool, tenantId);
  }

  async list(tenantId: string, known?: ReadList): Promise<ReadList> {
    const { tools, version } = await this.listAll(tenantId, false, known);
    const isOwn = new Set(this.own.map(({ name }) => name));
    return inOrder({ tools: [...this.own, ...tools.filter(({ name }) => !isOwn.has(name))], version });
  }

  /** In no order: what changed is read apart from the rest. */
  private async listAll(tenantId: string, features: boolean, known?: ReadList): Promise<ReadList> {
    const before = new Map(known?.tools.map((tool) => [tool.name, tool]));
    const tools: RegisteredTool[] = [];
    let cursor: string | undefined;
    /** Of the first page: what changed meanwhile is read again next time. */
    let version: number | undefined;
    for (;;) {
      const query = {
        tenant_id: tenantId,
        features: features || undefined,
        limit: PAGE,
        cursor,
        since: known?.version,
      };
      const page = await this.nats.ask('registry.definition.list', query, ASKED);
      version ??= page.version;
      for (const [name, revision] of page.unchanged ?? []) {
        const tool = before.get(name);
        // The versions are of another store.
        if (tool?.revision !== revision) return this.listAll(tenantId, features);
        tools.push(tool);
      }
      tools.push(...page.tools.map((tool) => this.complete(tool, tenantId)));
      if (page.next_cursor === undefined) return { tools, version };
      cursor = page.next_cursor;
    }
  }

  async getToolset(tenantId: string, name: string, version?: number): Promise<ServedToolset | null> {
    return (await this.nats.ask('registry.toolset.get', { tenant_id: tenantId, name, version }, ASKED)).toolset;
  }
}

const byName = (a: RegisteredTool, b: RegisteredTool): number => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);

const inOrder = ({ tools, version }: ReadList): ReadList => ({ tools: tools.toSorted(byName), version });

/** The engine's catalog, over the caches of definitions and toolsets. */
export class RegistryResolver extends ToolCatalog {
  constructor(
    private readonly cache: Pick<DefinitionCache, 'get'>,
    private readonly toolsets: Pick<Toolsets, 'find'>,
    private readonly list: Pick<ToolList, 'all'>,
  ) {
    super();
  }

  override async resolve(name: string, principal: Principal): Promise<ResolvedTool | undefined> {
    if (hasToolset(principal)) {
      const { tool, view } = await this.toolsets.find(principal, name).catch(async (error: unknown) => {
        throw await withSimilarTools(error, name, this.list, principal);
      });
      return { tool, view: view.viewOf(tool) };
    }
    const tool = await this.cache.get(name, principal.tenantId);
    return tool ? { tool } : undefined;
  }

  override async notFound(name: string, principal: Principal): Promise<unknown> {
    return withSimilarTools(await super.notFound(name, principal), name, this.list, principal);
  }
}

/** Follows the changes that the registry announces: drops changed tools from the caches and notifies subscribers. */
export class CatalogChanges {
  private readonly listeners = new Set<() => void>();

  /** Subscribes to changes; the connection must be open. */
  follow(nats: NatsClient, caches: readonly DefinitionCache[], toolsets: Toolsets): void {
    const changed = (): void => {
      // A changed definition can disable an override.
      toolsets.invalidate();
      for (const listener of this.listeners) listener();
    };
    nats.subscribe(SUBJECTS.definitionChanged, ({ body }) => {
      for (const cache of caches) {
        if (isJsonObject(body)) cache.invalidate(body as unknown as DefinitionChanged);
        else cache.invalidateAll();
      }
      changed();
    });
    nats.subscribe(SUBJECTS.toolsetChanged, changed);
  }

  /** Calls `changed` after every change. @returns a function that ends the subscription */
  subscribe(changed: () => void): () => void {
    this.listeners.add(changed);
    return () => this.listeners.delete(changed);
  }
}
