import { isJsonObject, type Json, type JsonObject } from '@toolfleet/base';
import type { Findings } from '../findings.js';
import { arrayAt, objectAt, stringAt } from '../json-pointer.js';
import type { RefResolver } from '../load/references.js';
import type { SecurityScheme } from '../plan.js';
import type { RawOperation } from './expand-operations.js';

const TYPES: ReadonlySet<string> = new Set(['apiKey', 'http', 'oauth2', 'openIdConnect', 'mutualTLS']);

/** Reads security requirements; the schemes of a document are resolved once. */
export class SecurityReader {
  private readonly schemes = new Map<string, SecurityScheme | undefined>();

  constructor(
    private readonly root: JsonObject,
    private readonly refs: RefResolver,
    private readonly findings: Findings,
  ) {}

  /** The requirements of an operation or else of the document, as OR of AND sets; undefined when neither declares any. */
  readRequirements(operation: RawOperation): SecurityScheme[][] | undefined {
    const source = operation.node.security ?? this.root.security;
    if (!Array.isArray(source)) return undefined;
    return source.filter(isJsonObject).map((set) => this.readSet(set));
  }

  private readSet(set: JsonObject): SecurityScheme[] {
    return Object.keys(set).flatMap((id) => {
      if (!this.schemes.has(id)) this.schemes.set(id, this.readScheme(id));
      const scheme = this.schemes.get(id);
      const scopes = arrayAt(set, id).filter((scope): scope is string => typeof scope === 'string');
      if (!scheme) return [{ id, type: 'mutualTLS' as const }]; // unknown scheme: a set that no credential satisfies
      return [scopes.length > 0 ? { ...scheme, scopes } : scheme];
    });
  }

  private readScheme(id: string): SecurityScheme | undefined {
    const schemes = objectAt(objectAt(this.root, 'components'), 'securitySchemes');
    const pointer = `/components/securitySchemes/${id}`;
    const followed = this.refs.follow(schemes && Object.hasOwn(schemes, id) ? schemes[id] : undefined, pointer);
    const type = 'failed' in followed ? undefined : stringAt(followed.node, 'type');
    if ('failed' in followed || type === undefined || !TYPES.has(type)) {
      this.findings.warn(pointer, 'the security scheme is not defined or of an unknown type');
      return undefined;
    }
    const { node } = followed;
    const scheme: SecurityScheme = { id, type: type as SecurityScheme['type'] };
    if (type === 'apiKey') {
      scheme.in = (stringAt(node, 'in')?.toLowerCase() as SecurityScheme['in']) ?? 'header';
      scheme.name = stringAt(node, 'name') ?? id;
    }
    if (type === 'http') scheme.scheme = (stringAt(node, 'scheme') ?? 'bearer').toLowerCase();
    if (type === 'oauth2') readFlows(objectAt(node, 'flows'), scheme);
    return scheme;
  }
}

/** Reads the token URL of client credentials; other flows need a person. */
function readFlows(flows: JsonObject | undefined, scheme: SecurityScheme): void {
  const tokenUrl = stringAt(objectAt(flows, 'clientCredentials'), 'tokenUrl');
  if (tokenUrl !== undefined) scheme.token_url = tokenUrl;
  else scheme.interactive_only = true;
}

/** The strings in a list; empty for other values. */
export function toStrings(value: Json | undefined): string[] {
  return Array.isArray(value) ? value.filter((item): item is string => typeof item === 'string') : [];
}
