import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { plainName, secretName, type SecretName } from '@toolfleet/contracts/secret-names';
import { referenceTarget } from '@toolfleet/bounded-schema';

/** Distinct names with a remembered answer. */
const MAX_KNOWN_NAMES = 1_000;

/** Members without kept values. Names are plain (`plainName`): case and separators do not count. */
export class HiddenNames {
  readonly #known = new Map<string, SecretName | 'by_path'>();

  constructor(
    /** Wherever they are. */
    private readonly names: ReadonlySet<string>,
    /** The last names of paths; lists add none. */
    readonly paths: readonly (readonly string[])[],
  ) {}

  /** Whether a member of this name is hidden: `secret` wherever it is, `label` if its value looks random, or at the end of a path. */
  hides(name: string): SecretName | 'by_path' {
    if (this.names.size === 0 && this.paths.length === 0) return secretName(name);
    if (this.#known.has(name)) return this.#known.get(name);
    const plain = plainName(name);
    const isEnd = this.paths.some((path) => path.at(-1) === plain);
    const known = this.names.has(plain) ? 'secret' : secretName(name);
    const answer = known !== 'secret' && isEnd ? 'by_path' : known;
    if (this.#known.size < MAX_KNOWN_NAMES) this.#known.set(name, answer);
    return answer;
  }
}

/**
 * The members that a tool's schemas (`writeOnly`, `format: password`), the configured paths and names of secrets (`secretName`) hide. A
 * member that is hidden at one place of a schema is hidden by its name everywhere: arguments need not have the shape of the schema.
 */
export function hiddenNames(
  tool: Pick<RegisteredTool, 'input_schema' | 'output_schema'> | undefined,
  paths: readonly string[],
): HiddenNames {
  const names = new Set<string>();
  for (const schema of [tool?.input_schema, tool?.output_schema]) if (schema) collect(schema, names);
  const split = paths.map((path) => path.split('.').map(plainName));
  for (const path of split) if (path.length === 1) names.add(path[0]!);
  return new HiddenNames(
    names,
    split.filter((path) => path.length > 1),
  );
}

/** Adds the names of members with a secret schema, followed through references. Iterative: schemas may be recursive. */
function collect(root: JsonObject, names: Set<string>): void {
  const open: { schema: Json; name: string }[] = [{ schema: root, name: '' }];
  const seen = new Map<Json, Set<string>>();
  for (let next = open.pop(); next; next = open.pop()) {
    const { schema, name } = next;
    if (Array.isArray(schema)) {
      for (const item of schema) open.push({ schema: item, name });
      continue;
    }
    if (!isJsonObject(schema)) continue;
    const asNames = seen.get(schema) ?? new Set();
    if (asNames.has(name)) continue;
    seen.set(schema, asNames.add(name));
    if (schema['writeOnly'] === true || schema['format'] === 'password') names.add(plainName(name));
    const target = referenceTarget(root, schema);
    if (target) open.push({ schema: target, name });
    for (const [keyword, part] of Object.entries(schema)) {
      if ((keyword === 'properties' || keyword === 'patternProperties') && isJsonObject(part))
        for (const [member, of] of Object.entries(part))
          open.push({ schema: of, name: keyword === 'properties' ? member : name });
      else if (!(keyword in VALUES)) open.push({ schema: part, name });
    }
  }
}

/** Keywords that hold values or definitions, not schemas of the member. */
const VALUES = {
  const: 1,
  default: 1,
  enum: 1,
  example: 1,
  examples: 1,
  $defs: 1,
  definitions: 1,
  required: 1,
} as const;
