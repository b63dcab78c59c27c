import { isJsonObject, ToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import { holdsSealed } from '@toolfleet/service';
import { sourceName } from './register-definition.js';
import type { DefinitionStore, StoredRegistration } from './definition-store.js';

type Kind = StoredRegistration['kind'];

/** `$VAR` and `${VAR}` as the executors expand them. */
const VARIABLE = /\$\{[A-Za-z_]\w*\}|\$[A-Za-z_]\w*/;
/** Part of a source name and of an alias. */
const NAME = /^[A-Za-z0-9_.-]{1,100}$/;

/**
 * Registrations made at run time: kept in the store, so that they survive restarts, and kept apart from what the operator
 * declared in the configuration file.
 */
export class Registrations {
  private readonly configured = new Set<string>();

  constructor(private readonly store: DefinitionStore) {}

  /** Names the configuration file declares. */
  declare(kind: Kind, names: Iterable<string>): void {
    for (const name of names) this.configured.add(`${kind}/${name}`);
  }

  /** Whether the configuration file declares this source. */
  isDeclared(kind: Kind, source: string): boolean {
    return this.configured.has(`${kind}/${source}`);
  }

  /**
   * Checks that a name may be registered, and gives the source name.
   * @throws ToolError REQUEST_INVALID; TOOL_NAME_CONFLICT for names of the configuration file
   */
  claim(kind: Kind, name: string, tenant: string | undefined, body: JsonObject): string {
    if (!NAME.test(name)) invalid('name', 'needs 1 to 100 letters, digits, "_", "-" or "."');
    // Variables are the operator's secrets: a tenant could send them to a server of its own.
    if (tenant !== undefined && holdsVariable(body)) {
      invalid('body', 'a registration of a tenant cannot use ${VARIABLES} of the fleet');
    }
    // Sealed values are made here alone: one that comes from outside was copied from another registration.
    if (holdsSealed(body))
      invalid('body', 'a registration holds its secrets as they are; sealed ones are not accepted');
    const source = sourceName(name, tenant);
    if (this.isDeclared(kind, source)) {
      throw new ToolError('TOOL_NAME_CONFLICT', { message: `${name} is declared in the configuration file` });
    }
    return source;
  }

  /** Kept registrations of one kind; what the configuration file declares by now is the file's. */
  async kept(kind: Kind): Promise<StoredRegistration<JsonObject>[]> {
    const all = await this.store.registrations();
    return all.filter(
      (one): one is StoredRegistration<JsonObject> =>
        one.kind === kind && isJsonObject(one.body) && !this.isDeclared(kind, one.name),
    );
  }

  /** Owners the configuration file declares. */
  get declared(): ReadonlySet<string> {
    return this.configured;
  }
}

function holdsVariable(value: Json): boolean {
  if (typeof value === 'string') return VARIABLE.test(value);
  if (Array.isArray(value)) return value.some(holdsVariable);
  return (
    isJsonObject(value) && Object.entries(value).some(([key, member]) => key !== 'spec_inline' && holdsVariable(member))
  );
}

function invalid(field: string, message: string): never {
  throw new ToolError('REQUEST_INVALID', { message: `${field}: ${message}`, details: { field } });
}
