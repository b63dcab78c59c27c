import type { DefinitionCache } from '@toolfleet/catalog';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';

/** Today's definitions of the tools that calls of the past named. */
export class PastDefinitions {
  readonly #known = new Map<string, RegisteredTool | undefined>();

  constructor(private readonly definitions: Pick<DefinitionCache, 'get'>) {}

  /** Undefined for a tool that is gone. A promise only when the registry has to be asked. */
  of({ tenant_id: tenantId, tool }: { tenant_id: string; tool: string }) {
    const key = `${tenantId} ${tool}`;
    return this.#known.has(key) ? this.#known.get(key) : this.#read(key, tenantId, tool);
  }

  async #read(key: string, tenantId: string, name: string): Promise<RegisteredTool | undefined> {
    const found = await this.definitions.get(name, tenantId);
    // An alias of another tool now.
    const tool = found?.name === name ? found : undefined;
    this.#known.set(key, tool);
    return tool;
  }
}
