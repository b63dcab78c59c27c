import { isJsonObject, isToolError, ToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import type { ToolSource } from '@toolfleet/contracts/tool-definition';
import { holdsSealed } from '@toolfleet/service';
import type { StoredRegistration } from './definition-store.js';
import type { DefinitionStore } from './redis-definition-store.js';
import { sourceName } from './tool-key.js';

type Kind = StoredRegistration['kind'];

/** `$VAR` and `${VAR}` as the executors expand them. */
const VARIABLE = /\$\{[A-Za-z_]\w*\}|\$[A-Za-z_]\w*/;
/** Part of a source name and of an alias. */
const NAME = /^[A-Za-z0-9_.-]{1,100}$/;

/**
 * OpenAPI and MCP sources: declared in the configuration file, or registered at run time, stored and
 * survive restarts. A declared source takes precedence over a registration with the same name.
 */
export class SourceStore {
  private configured: ReadonlySet<string> = new Set();

  constructor(private readonly store: DefinitionStore) {}

  /** Records the owners (`kind/name`) that the configuration file declares, in place of those before. */
  declare(owners: Iterable<string>): void {
    this.configured = new Set(owners);
  }

  /** Whether the configuration file declares this source. */
  isDeclared(kind: Kind, source: string): boolean {
    return this.configured.has(`${kind}/${source}`);
  }

  /**
   * Checks that a registration is allowed and returns its source name.
   * @throws ToolError REQUEST_INVALID; TOOL_NAME_CONFLICT for a name of the configuration file
   */
  claim(kind: Kind, name: string, tenant: string | undefined, body: JsonObject): string {
    if (!NAME.test(name)) throw invalid('name', 'must be 1 to 100 letters, digits, "_", "-" or "."');
    // Variables hold the operator's secrets. A tenant could have them sent to its own server.
    // The document and the stub are never expanded. Fields of the same name deeper in the body, such as headers, are.
    const { spec_inline: _document, stub_data: _stub, ...expanded } = body;
    const variable = tenant === undefined ? undefined : findVariable(expanded);
    if (variable !== undefined) {
      const why = `must not contain ${variable}: variables are for sources of the fleet`;
      throw invalid(
        'body',
        `${why} (the configuration file, or visibility "fleet" by an operator); send the value itself`,
      );
    }
    // Only the registry seals. A sealed value in a request was copied from another registration.
    if (holdsSealed(body)) throw invalid('body', 'must contain plain secrets, not sealed ones');
    const source = sourceName(name, tenant);
    if (this.isDeclared(kind, source)) {
      throw new ToolError('TOOL_NAME_CONFLICT', { message: `${name} is declared in the configuration file` });
    }
    return source;
  }

  /** Stored registrations of one kind, without those the configuration file declares now. */
  async registrations(kind: Kind): Promise<StoredRegistration<JsonObject>[]> {
    const all = await this.store.registrations();
    return all.filter(
      (one): one is StoredRegistration<JsonObject> =>
        one.kind === kind && isJsonObject(one.body) && !this.isDeclared(kind, one.name),
    );
  }
}

/** The registration that definitions result from was removed or replaced while they were being registered. */
export function supersededError({ kind, name }: ToolSource): ToolError {
  return new ToolError('NOT_FOUND', {
    message: `The registration of ${kind}/${name} was removed or replaced meanwhile`,
    details: { reason: 'superseded' },
    facts: { reason: 'superseded' },
  });
}

/** Whether an error is a `supersededError`; the source of that registration is then no longer watched. */
export function isSuperseded(error: unknown): boolean {
  return isToolError(error) && error.facts?.reason === 'superseded';
}

/** The first variable in a value. */
function findVariable(value: Json): string | undefined {
  if (typeof value === 'string') return VARIABLE.exec(value)?.[0];
  if (!Array.isArray(value) && !isJsonObject(value)) return undefined;
  for (const member of Object.values(value)) {
    const found = findVariable(member as Json);
    if (found !== undefined) return found;
  }
  return undefined;
}

function invalid(field: string, message: string): ToolError {
  return new ToolError('REQUEST_INVALID', { message: `${field}: ${message}`, details: { field } });
}
