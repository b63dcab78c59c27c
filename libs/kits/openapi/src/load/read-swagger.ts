import { upgradeFromTwoToThree } from '@scalar/openapi-upgrader/2.0-to-3.0';
import { isJsonObject, type Json, type JsonObject } from '@toolfleet/base';
import { specError, type Findings } from '../findings.js';
import { escapeToken, objectAt, setOwn, stringAt } from '../json-pointer.js';

const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch'];
const FORMS = ['application/x-www-form-urlencoded', 'multipart/form-data'];
/** Formats of lists that OpenAPI 3 has in this place as well. */
const LIST_FORMATS: Readonly<Record<string, readonly string[]>> = {
  query: ['csv', 'ssv', 'pipes', 'multi'],
  path: ['csv'],
  header: ['csv'],
  formData: ['multi'],
};

/**
 * Reads a Swagger 2.0 document as OpenAPI 3.0. `@scalar/openapi-upgrader` converts it; what the library loses (shared parameters of bodies,
 * members of form fields, media types of an operation next to the document's) is put into the operations before.
 * @throws CodedError SPEC_INVALID when the library cannot read the document
 */
export function fromSwagger(swagger: JsonObject, findings: Findings): JsonObject {
  findings.warn('/swagger', 'Swagger 2.0 is read as OpenAPI 3.0; warnings name places of the converted document');
  // Parts that YAML aliases share must not be, because the library changes them where they are.
  const root = JSON.parse(JSON.stringify(swagger), withNullable) as JsonObject;
  const { host, basePath = '', schemes } = root;
  for (const [path, item] of Object.entries(objectAt(root, 'paths') ?? {}))
    if (isJsonObject(item)) prepareItem(root, item, `/paths/${escapeToken(path)}`, findings);
  for (const moved of ['host', 'basePath', 'schemes', 'parameters', 'responses', 'consumes', 'produces'])
    delete root[moved];
  let converted: JsonObject;
  try {
    converted = upgradeFromTwoToThree({ ...root, swagger: '2.0' }) as JsonObject;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw specError('SPEC_PARSE_ERROR', `the Swagger 2.0 document cannot be converted: ${why.slice(0, 200)}`);
  }
  // Without schemes it is the one that the document came by: select-server resolves `//host`.
  const known = strings(schemes)
    .filter((scheme) => /^https?$/.test(scheme))
    .toSorted()
    .toReversed();
  const origins = known.length > 0 ? known.map((scheme) => `${scheme}:`) : [''];
  if (typeof host === 'string') converted.servers = origins.map((origin) => ({ url: `${origin}//${host}${basePath}` }));
  else if (basePath !== '') converted.servers = [{ url: basePath }];
  return converted;
}

/** `x-nullable` of Swagger 2.0 is `nullable` of OpenAPI 3.0. */
const withNullable = (_key: string, value: Json): Json =>
  isJsonObject(value) && value['x-nullable'] === true ? { ...value, nullable: true } : value;

/** Gives each operation all of its parameters, responses and media types. */
function prepareItem(root: JsonObject, item: JsonObject, pointer: string, findings: Findings): void {
  const shared = parametersAt(root, item, pointer, findings);
  delete item.parameters;
  for (const method of METHODS) {
    const operation = item[method];
    const at = `${pointer}/${method}`;
    if (operation === undefined) continue;
    if (!isJsonObject(operation)) {
      findings.warn(at, 'the operation is not an object and gives no tool');
      delete item[method];
      continue;
    }
    const own = parametersAt(root, operation, at, findings);
    const taken = new Set(own.map(keyOf));
    const parameters = [...own, ...structuredClone(shared.filter((parameter) => !taken.has(keyOf(parameter))))];
    const fields = parameters.filter((parameter) => parameter.in === 'formData');
    const consumes = strings(operation.consumes ?? root.consumes);
    operation.consumes = consumes.length > 0 ? consumes : ['application/json'];
    operation.parameters = parameters.filter((parameter) => parameter.in !== 'formData');
    if (fields.length > 0) {
      const forms = consumes.filter((type) => FORMS.includes(type));
      operation.consumes = forms.length > 0 ? forms : [FORMS[fields.some(({ type }) => type === 'file') ? 1 : 0]!];
      operation.parameters = [...operation.parameters, toBody(fields)];
    }
    const produces = strings(operation.produces ?? root.produces);
    operation.produces = produces.length > 0 ? produces : ['application/json'];
    for (const [code, response] of Object.entries(objectAt(operation, 'responses') ?? {}))
      if (isJsonObject(response))
        setOwn(operation.responses as JsonObject, code, sharedAt(root, 'responses', response));
      else delete (operation.responses as JsonObject)[code];
  }
}

/** The parameters of a path item or an operation, with shared ones in place of references to them. */
function parametersAt(root: JsonObject, owner: JsonObject, pointer: string, findings: Findings): JsonObject[] {
  const list = Array.isArray(owner.parameters) ? owner.parameters : [];
  return list.flatMap((given, index) => {
    const at = `${pointer}/parameters/${index}`;
    const parameter = isJsonObject(given) ? sharedAt(root, 'parameters', given) : {};
    const { in: place, collectionFormat: format, type } = parameter;
    if (typeof place !== 'string' && parameter.$ref === undefined) {
      findings.warn(at, 'the parameter says no place ("in") and is dropped');
      return [];
    }
    if (
      type === 'array' &&
      typeof place === 'string' &&
      !LIST_FORMATS[place]?.includes(stringAt(parameter, 'collectionFormat') ?? 'csv')
    )
      findings.warn(
        at,
        `collectionFormat ${JSON.stringify(format ?? 'csv').slice(0, 40)} is sent as OpenAPI 3 sends lists in ${place}`,
      );
    return [parameter];
  });
}

/** A copy of the target of a reference to a shared part of the document; anything else unchanged. */
function sharedAt(root: JsonObject, section: string, node: JsonObject): JsonObject {
  const prefix = `#/${section}/`;
  const ref = stringAt(node, '$ref');
  const name = ref?.startsWith(prefix)
    ? ref.slice(prefix.length).replaceAll('~1', '/').replaceAll('~0', '~')
    : undefined;
  const target = name === undefined ? undefined : objectAt(objectAt(root, section) ?? {}, name);
  return target ? structuredClone(target) : node;
}

/** Form fields as the body that OpenAPI 3 makes of them. */
function toBody(fields: readonly JsonObject[]): JsonObject {
  const properties: JsonObject = {};
  const required: string[] = [];
  for (const {
    name,
    in: _in,
    required: isRequired,
    collectionFormat: _format,
    allowEmptyValue: _empty,
    ...schema
  } of fields) {
    setOwn(properties, String(name), schema);
    if (isRequired === true) required.push(String(name));
  }
  const schema: JsonObject = { type: 'object', properties };
  if (required.length > 0) schema.required = required;
  return { in: 'body', name: 'body', required: required.length > 0, schema };
}

/** An operation has one body, whatever it is called. */
const keyOf = ({ in: place, name }: JsonObject): string =>
  place === 'body' || place === 'formData' ? 'body' : `${String(place)} ${String(name)}`;

const strings = (value: Json | undefined): string[] =>
  Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
