import { isJsonObject } from '@toolfleet/contracts';
import type { DefinitionChanged } from '@toolfleet/contracts/registry';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { NatsClient } from '@toolfleet/transport';
import type { DefinitionCache } from './definition-cache.js';

/** The registry announces every change: what it names is forgotten at once, and whoever shows lists is told. */
export class CatalogChanges {
  private readonly listeners = new Set<() => void>();

  /** Begins to listen; the connection must be open. */
  follow(nats: NatsClient, cache: DefinitionCache): void {
    nats.subscribe(SUBJECTS.definitionChanged, ({ body }) => {
      if (isJsonObject(body)) cache.invalidate(body as unknown as DefinitionChanged);
      else cache.invalidateAll();
      for (const listener of this.listeners) listener();
    });
  }

  /** Calls `changed` after every change; returns how to stop that. */
  subscribe(changed: () => void): () => void {
    this.listeners.add(changed);
    return () => this.listeners.delete(changed);
  }
}
