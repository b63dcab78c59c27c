import { isJsonObject, type Json, type JsonObject } from '@toolfleet/base';

/** Values of a mapping that are described. */
const MAX_MAPPED = 50;

/**
 * Describes the mapping of a discriminator in words, because no validator reads it: which value of the property chooses which schema. Where
 * there is none, the values are in the schemas, or are their names.
 */
export function describeMapping(discriminator: Json | undefined, out: JsonObject): void {
  const { propertyName, mapping } = isJsonObject(discriminator) ? discriminator : {};
  if (typeof propertyName !== 'string' || !isJsonObject(mapping)) return;
  const chosen = Object.entries(mapping)
    .slice(0, MAX_MAPPED)
    .map(([value, target]) => `${JSON.stringify(value)}: ${String(target).split('/').at(-1)}`);
  const text = `${propertyName} chooses the form: ${chosen.join(', ')}`.slice(0, 1_000);
  out.description = typeof out.description === 'string' ? `${out.description}\n${text}` : text;
}

/** Branches looked at pairwise; longer lists count as overlapping. */
const MAX_BRANCHES = 50;

/**
 * True when no value can match two branches of a `oneOf`: their types differ, or a property that all of them require has
 * different constants. Where branches overlap (usual with a discriminator that a validator does not read), `oneOf`
 * would refuse values that the API takes, so the tool schema says `anyOf` there.
 */
export function areExclusive(branches: readonly Json[], follow: (schema: Json) => JsonObject | undefined): boolean {
  if (branches.length < 2) return true;
  if (branches.length > MAX_BRANCHES) return false;
  const nodes = branches.map(follow);
  if (nodes.some((node) => node === undefined)) return false;
  const schemas = nodes as JsonObject[];
  return schemas.every((one, index) =>
    schemas.slice(index + 1).every((other) => haveOtherTypes(one, other) || haveOtherConstants(one, other, follow)),
  );
}

function haveOtherTypes(one: JsonObject, other: JsonObject): boolean {
  const types = readTypes(one);
  const others = readTypes(other);
  return types.length > 0 && others.length > 0 && !types.some((type) => others.includes(type));
}

/** Type names; an integer is a number as well, and `nullable` adds null. */
function readTypes(schema: JsonObject): string[] {
  const declared = [schema.type].flat().filter((type): type is string => typeof type === 'string');
  const types = declared.map((type) => (type === 'integer' ? 'number' : type));
  return schema.nullable === true && types.length > 0 ? [...types, 'null'] : types;
}

function haveOtherConstants(
  one: JsonObject,
  other: JsonObject,
  follow: (schema: Json) => JsonObject | undefined,
): boolean {
  const properties = isJsonObject(one.properties) ? one.properties : {};
  const others = isJsonObject(other.properties) ? other.properties : {};
  return readRequired(one).some((name) => {
    if (!readRequired(other).includes(name) || !Object.hasOwn(properties, name) || !Object.hasOwn(others, name))
      return false;
    const values = readConstants(follow(properties[name] as Json));
    const otherValues = readConstants(follow(others[name] as Json));
    return values !== undefined && otherValues !== undefined && !values.some((value) => otherValues.includes(value));
  });
}

function readRequired(schema: JsonObject): string[] {
  return Array.isArray(schema.required)
    ? schema.required.filter((name): name is string => typeof name === 'string')
    : [];
}

function readConstants(schema: JsonObject | undefined): string[] | undefined {
  if (schema?.const !== undefined) return [JSON.stringify(schema.const)];
  return Array.isArray(schema?.enum) && schema.enum.length > 0
    ? schema.enum.map((value) => JSON.stringify(value))
    : undefined;
}
