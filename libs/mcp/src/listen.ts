/** `subscriptions/listen` of 2026-07-28: which resources a stream may subscribe to, and who gets their updates. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { InMemoryServerEventBus, type ServerEventBus } from '@modelcontextprotocol/server';
import { CATALOGUE, isJsonObject, toToolError, type Json, type JsonObject, type Principal } from '@toolfleet/contracts';
import { openFeatures } from './features.js';
import type { McpServerDeps } from './server-deps.js';
import type { FoundResource } from './resource-subscriptions.js';
import type { Exchange } from './session.js';
import { clientCallRequest } from './tool-call.js';

type Listener = Parameters<ServerEventBus['subscribe']>[0];

/**
 * The bus of the SDK's streams. Its messages go to all of them. Updates of resources do not: two clients may know different
 * resources by one address, so each stream gets its own subscriptions'.
 */
export class ListenBus extends InMemoryServerEventBus {
  readonly #opening = new AsyncLocalStorage<(listener: Listener) => { close(): void }>();

  /** Runs `serve`; `attach` gets the listener of the stream that it opens, if it opens one. */
  opening<T>(attach: (listener: Listener) => { close(): void }, serve: () => T): T {
    return this.#opening.run(attach, serve);
  }

  override subscribe(listener: Listener): () => void {
    const leave = super.subscribe(listener);
    const attached = this.#opening.getStore()?.(listener);
    return () => {
      leave();
      attached?.close();
    };
  }
}

/** Whether a caller sees resources that can be subscribed to. */
export async function offersSubscriptions(deps: McpServerDeps, principal: Principal): Promise<boolean> {
  if (!deps.subscriptions) return false;
  return ((await deps.listFeatures?.(principal)) ?? []).some(({ listing }) => listing?.['subscribe'] === true);
}

/** The resources that a request to listen names; undefined for other requests, and where it names none. */
export function readListened(body: Json | undefined): string[] | undefined {
  if (!isJsonObject(body) || body['method'] !== 'subscriptions/listen' || !isJsonObject(body['params']))
    return undefined;
  const filter = body['params']['notifications'];
  const named = isJsonObject(filter) ? filter['resourceSubscriptions'] : undefined;
  // The SDK refuses a list with other values.
  if (!Array.isArray(named) || named.length === 0 || !named.every((one) => typeof one === 'string')) return undefined;
  return [...new Set(named)];
}

/** The request with only these resources, for its acknowledgement. */
export function withListened(body: Json | undefined, resourceSubscriptions: string[]): JsonObject {
  const { params, ...rest } = body as JsonObject & { params: JsonObject & { notifications: JsonObject } };
  return { ...rest, params: { ...params, notifications: { ...params.notifications, resourceSubscriptions } } };
}

/** A resource that the caller sees, of a server with subscriptions. */
export async function findSubscribable(
  deps: McpServerDeps,
  principal: Principal,
  address: string,
): Promise<FoundResource | undefined> {
  const found = (await openFeatures(deps, principal)).resource(address);
  return found?.definition.listing?.['subscribe'] === true ? found : undefined;
}

/**
 * The addresses that the caller may read and subscribe to. Each is decided by a dry run of the call that reads it: access, policy
 * and limits are as for `resources/read`.
 * @throws ToolError REQUEST_INVALID, QUEUE_FULL when there are too many; or the failure of a dry run that may succeed later
 */
export async function selectReadable(
  deps: McpServerDeps,
  client: { principal: Principal; exchange: Exchange | undefined; signal: AbortSignal },
  addresses: readonly string[],
): Promise<string[]> {
  deps.subscriptions?.check(client.principal, addresses.length);
  const readable = addresses.map(async (address) => {
    const found = await findSubscribable(deps, client.principal, address);
    if (!found) return [];
    const call = { ...client, name: found.definition.name, arguments: { uri: found.uri } };
    try {
      const { ok } = await deps.executeCall(clientCallRequest(call, { dry_run: true }, deps));
      return ok ? [address] : [];
    } catch (error) {
      if (CATALOGUE[toToolError(error).code].retryable) throw error;
      return [];
    }
  });
  return (await Promise.all(readable)).flat();
}
