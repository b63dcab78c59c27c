import { ToolError, type Json } from '@toolfleet/contracts';
import { registerSecret } from '@toolfleet/telemetry';
import { processEnvironment, readSecretFile, type Environment } from './load-config.js';

/** `${NAME}` or `$NAME`; `$$` is a literal dollar sign. `$5` and a lone `$` are text. */
const REFERENCE = /\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)/g;

/**
 * Expands variables in the options of a tool right before its executor connects: definitions keep them unexpanded in the registry, in
 * Redis and on NATS. A value comes from `NAME` or from the file `NAME_FILE`, read each time, so that the next connection uses a
 * rotated secret. Expanded values are registered for redaction.
 */
export class VariableExpander {
  private readonly reserved: ReadonlySet<string>;

  /** @param reserved keys of the service's own configuration that no tool may send elsewhere */
  constructor(
    reserved: Iterable<string>,
    private readonly environment: Environment = processEnvironment(),
  ) {
    this.reserved = new Set([...reserved].flatMap((key) => [key, `${key}_FILE`]));
  }

  /** @throws ToolError AUTH_NOT_CONFIGURED naming the variable that is unset or reserved */
  expand(value: string): string {
    return value.replace(REFERENCE, (reference, braced?: string, bare?: string) => {
      const name = braced ?? bare;
      return name === undefined ? reference.slice(1) : this.lookup(name);
    });
  }

  /** Expands every string inside a JSON value; keys stay as they are. */
  expandAll<T extends Json>(value: T): T {
    if (typeof value === 'string') return this.expand(value) as T;
    if (Array.isArray(value)) return value.map((item) => this.expandAll(item)) as T;
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, this.expandAll(item)])) as T;
  }

  private lookup(name: string): string {
    if (this.reserved.has(name))
      throw missing(
        name,
        'belongs to the service itself; put the value into a variable that is not one of its settings',
      );
    const file = this.environment[`${name}_FILE`];
    const value = file ? this.fromFile(name, file) : this.environment[name];
    if (value === undefined || value === '') throw missing(name, 'is not set');
    registerSecret(value);
    return value;
  }

  private fromFile(name: string, file: string): string {
    try {
      return readSecretFile(file);
    } catch {
      throw missing(name, 'is in a file that cannot be read');
    }
  }
}

function missing(name: string, why: string): ToolError {
  return new ToolError('AUTH_NOT_CONFIGURED', {
    message: `The variable ${name} of this tool's configuration ${why}`,
    details: { variable: name },
  });
}
