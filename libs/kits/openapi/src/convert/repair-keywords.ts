import { RecentMap, type Json, type JsonObject } from '@toolfleet/base';

/** Reports a repair. */
type Complain = (message: string) => void;

const TYPES: ReadonlySet<string> = new Set(['string', 'number', 'integer', 'boolean', 'array', 'object', 'null']);
const NUMBERS: ReadonlySet<string> = new Set([
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
]);
const COUNTS: ReadonlySet<string> = new Set([
  'minLength',
  'maxLength',
  'minItems',
  'maxItems',
  'minProperties',
  'maxProperties',
  'minContains',
  'maxContains',
]);
const STRINGS: ReadonlySet<string> = new Set(['title', 'description', 'format', 'contentEncoding', 'contentMediaType']);
const FLAGS: ReadonlySet<string> = new Set(['uniqueItems', 'deprecated', 'readOnly', 'writeOnly']);

/**
 * Converts one keyword that holds no schema. Returns undefined for what does not reach
 * the tool schema: vendor extensions, `xml`, `discriminator`, and values that no validator accepts.
 */
export function plainKeyword(keyword: string, value: Json, complain: Complain): Json | undefined {
  if (STRINGS.has(keyword)) return typeof value === 'string' ? value : undefined;
  if (FLAGS.has(keyword)) return typeof value === 'boolean' ? value : undefined;
  if (NUMBERS.has(keyword)) return repairNumber(keyword, value, complain);
  if (COUNTS.has(keyword)) return repairCount(keyword, value, complain);
  switch (keyword) {
    case 'type':
      return repairType(value, complain);
    case 'pattern':
      return repairPattern(value, complain);
    case 'required':
      return repairRequired(value, complain);
    case 'enum':
      return repairEnum(value, complain);
    case 'default':
    case 'const':
      return repairData(keyword, value, complain);
    case 'examples':
      return Array.isArray(value) ? repairData(keyword, value, complain) : undefined;
    case 'dependentRequired':
      return repairDependentRequired(value);
    default:
      return undefined;
  }
}

function repairType(value: Json, complain: Complain): Json | undefined {
  if (Array.isArray(value)) {
    const types = [
      ...new Set(value.map((entry) => repairType(entry, complain)).filter((entry) => entry !== undefined)),
    ];
    return types.length > 1 ? types : types[0];
  }
  if (typeof value === 'string') {
    if (TYPES.has(value)) return value;
    const lower = value.toLowerCase();
    const type = lower === 'file' ? 'string' : TYPES.has(lower) ? lower : undefined;
    complain(type ? `type "${value}" is read as "${type}"` : `unknown type "${value.slice(0, 80)}" is dropped`);
    return type;
  }
  if (value !== null) complain('a type that is not a string is dropped');
  return undefined;
}

/** Accepts numbers written as strings. The caller handles `exclusiveMinimum: true` of 3.0. */
function repairNumber(keyword: string, value: Json, complain: Complain): number | undefined {
  if (typeof value === 'boolean') return undefined;
  const number = numeric(value);
  if (number !== undefined && !(keyword === 'multipleOf' && number <= 0)) {
    if (typeof value === 'string') complain('a number written as a string is read as a number');
    return number;
  }
  complain(`${keyword} is not a usable number and is dropped`);
  return undefined;
}

function repairCount(keyword: string, value: Json, complain: Complain): number | undefined {
  const number = numeric(value);
  if (number !== undefined && Number.isInteger(number) && number >= 0) return number;
  complain(`${keyword} is not a length and is dropped`);
  return undefined;
}

function numeric(value: Json): number | undefined {
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  return typeof number === 'number' && Number.isFinite(number) ? number : undefined;
}

/** A pattern in the notation of JavaScript and Perl. Without anchors it may also mean a path; dropping a constraint is safe. */
const LITERAL = /^\/(.+)\/([a-z]*)$/s;

function repairPattern(value: Json, complain: Complain): string | undefined {
  if (typeof value !== 'string') return undefined;
  const literal = LITERAL.exec(value);
  if (literal) {
    const [, inner = '', flags = ''] = literal;
    const isRead = /^[gu]*$/.test(flags) && (inner.startsWith('^') || inner.endsWith('$'));
    const shown = JSON.stringify(value.slice(0, 120));
    complain(`the pattern ${shown} is written as /…/ and is ${isRead ? 'read without the slashes' : 'dropped'}`);
    return isRead ? repairPattern(inner, complain) : undefined;
  }
  const pattern = ecmaPattern(value);
  if (pattern !== null) return pattern;
  complain(`the pattern ${JSON.stringify(value.slice(0, 120))} is not an ECMA-262 expression and is dropped`);
  return undefined;
}

function repairRequired(value: Json, complain: Complain): string[] | undefined {
  if (!Array.isArray(value)) {
    complain('required has to be a list of names here and is dropped');
    return undefined;
  }
  const names = [...new Set(value.filter((name): name is string => typeof name === 'string'))];
  return names.length > 0 ? names : undefined;
}

function repairEnum(value: Json, complain: Complain): Json | undefined {
  if (!Array.isArray(value) || value.length === 0) {
    complain('an enum without values is dropped');
    return undefined;
  }
  return repairData('enum', uniqueValues(value), complain);
}

/** Drops data with a `$ref` member that walkers of the schema would follow as a reference. */
function repairData(keyword: string, value: Json, complain: Complain): Json | undefined {
  if (!holdsReference(value)) return value;
  complain(`${keyword} with a $ref in it is dropped: a reference cannot stand there`);
  return undefined;
}

/** Whether a value has a member `$ref` at any depth. */
export function holdsReference(value: Json): boolean {
  return typeof value === 'object' && value !== null && JSON.stringify(value).includes('"$ref":');
}

/** Values without repetition, compared as JSON. */
export function uniqueValues(values: Json[]): Json[] {
  return [...new Map(values.map((value) => [JSON.stringify(value), value])).values()];
}

function repairDependentRequired(value: Json): JsonObject | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const entries = Object.entries(value).filter((entry): entry is [string, Json[]] => Array.isArray(entry[1]));
  return Object.fromEntries(
    entries.map(([name, names]) => [name, [...new Set(names.filter((item) => typeof item === 'string'))]]),
  );
}

/** Results for patterns seen before; documents repeat a few patterns thousands of times. */
const known = new RecentMap<string, { pattern: string | null }>({ max: 10_000 });

/**
 * Converts a pattern to ECMA-262 with the `u` flag (JSON Schema 2020-12 section 6.4); null when it cannot be repaired.
 * Repaired: needless escapes (`\-`, `\/`, `\@`), `\A` and `\Z` of other dialects. Not repairSyntax: `(?i)`, possessive
 * quantifiers: dropping a constraint is safe, changing its meaning is not.
 */
export function ecmaPattern(pattern: string): string | null {
  const seen = known.get(pattern) ?? { pattern: isValid(pattern) ? pattern : repairSyntax(pattern) };
  known.set(pattern, seen);
  return seen.pattern;
}

function repairSyntax(pattern: string): string | null {
  const candidate = pattern.replace(/\\\\|\\-|\\A|\\[zZ]|\\[_@#%&=!"'`~,;:<> ]/g, (escape) => {
    if (escape === '\\\\') return escape;
    if (escape === '\\-') return '\\x2d';
    if (escape === '\\A') return '^';
    if (escape === '\\z' || escape === '\\Z') return '$';
    return escape.slice(1);
  });
  return candidate !== pattern && isValid(candidate) ? candidate : null;
}

function isValid(pattern: string): boolean {
  try {
    return new RegExp(pattern, 'u') instanceof RegExp;
  } catch {
    return false;
  }
}
