import type {
  DefinitionGet,
  DefinitionGetReply,
  DefinitionList,
  DefinitionListReply,
  DefinitionChanged,
} from '@toolfleet/contracts/registry';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { ToolCatalog } from '@toolfleet/engine';
import type { NatsClient } from '@toolfleet/transport';
import { isJsonObject } from '@toolfleet/contracts';
import type { DefinitionCache, DefinitionSource } from './definition-cache.js';

const ASK_TIMEOUT_MS = 5_000;
/** Definitions per page; the registry also bounds a page by bytes. */
const PAGE = 500;

/** Reads definitions from the registry over NATS. */
export class RegistrySource implements DefinitionSource {
  /** @param complete adds what the settings of this fleet say about a tool to its definition */
  constructor(
    private readonly nats: NatsClient,
    private readonly complete: (tool: RegisteredTool) => RegisteredTool = (tool) => tool,
  ) {}

  async get(name: string, tenantId: string): Promise<RegisteredTool | null> {
    const body: DefinitionGet = { name, tenant_id: tenantId };
    const { tool } = await this.nats.request<DefinitionGetReply>(SUBJECTS.definitionGet, body, {
      timeoutMs: ASK_TIMEOUT_MS,
    });
    return tool && this.complete(tool);
  }

  async list(tenantId: string): Promise<{ tools: RegisteredTool[]; version: number }> {
    const tools: RegisteredTool[] = [];
    let cursor: string | undefined;
    for (;;) {
      const body: DefinitionList = { tenant_id: tenantId, limit: PAGE, cursor };
      const page = await this.nats.request<DefinitionListReply>(SUBJECTS.definitionList, body, {
        timeoutMs: ASK_TIMEOUT_MS,
      });
      tools.push(...page.tools.map(this.complete));
      if (page.next_cursor === undefined) return { tools, version: page.version };
      cursor = page.next_cursor;
    }
  }
}

/** The engine's catalog, over the cache. */
export class RegistryResolver extends ToolCatalog {
  constructor(private readonly cache: DefinitionCache) {
    super();
  }

  override async resolve(name: string, tenantId: string): Promise<RegisteredTool | undefined> {
    return (await this.cache.get(name, tenantId)) ?? undefined;
  }
}

/** Follows the changes that the registry announces: drops changed definitions from the cache and notifies subscribers. */
export class CatalogChanges {
  private readonly listeners = new Set<() => void>();

  /** Subscribes to changes; the connection must be open. */
  follow(nats: NatsClient, cache: DefinitionCache): void {
    nats.subscribe(SUBJECTS.definitionChanged, ({ body }) => {
      if (isJsonObject(body)) cache.invalidate(body as unknown as DefinitionChanged);
      else cache.invalidateAll();
      for (const listener of this.listeners) listener();
    });
  }

  /** Calls `changed` after every change. @returns a function that ends the subscription */
  subscribe(changed: () => void): () => void {
    this.listeners.add(changed);
    return () => this.listeners.delete(changed);
  }
}
