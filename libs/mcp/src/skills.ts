/** Skills of MCP servers (SEP-2640) for one client. Their files are read as resources, unchanged, so that their digests hold. */
import { ProtocolError, ProtocolErrorCode, type Server, type StandardSchemaV1 } from '@modelcontextprotocol/server';
import {
  RESOURCES_DIRECTORY_READ_METHOD,
  SKILLS_GET_METHOD,
  SKILLS_LIST_METHOD,
} from '@modelcontextprotocol/server/ext/skills';
import { isJsonObject, type JsonObject } from '@toolfleet/contracts';
import { callFeature, openFeatures, pageOf, UNCACHED, type FeatureCaller } from './features.js';

/** Installs the methods of the extension. */
export function installSkills(server: Server, caller: FeatureCaller): void {
  const { deps, principal } = caller;

  server.setRequestHandler(SKILLS_LIST_METHOD, { params: LIST_PARAMS }, async ({ cursor }) => {
    const { items, nextCursor } = pageOf((await openFeatures(deps, principal)).skills, cursor);
    return { skills: items, nextCursor, ttlMs: deps.options.listTtlMs, cacheScope: 'private' };
  });

  server.setRequestHandler(SKILLS_GET_METHOD, { params: ADDRESS_PARAMS }, async ({ uri }, context) => {
    const definition = (await openFeatures(deps, principal)).skill(uri);
    if (!definition) throw invalidParams(`No skill is served at ${uri.slice(0, 200)}`);
    const { skill } = await callFeature(caller, definition, {}, context, { address: uri });
    return { ...UNCACHED, skill };
  });

  server.setRequestHandler(RESOURCES_DIRECTORY_READ_METHOD, { params: ADDRESS_PARAMS }, async (params, context) => {
    const { uri, cursor } = params;
    const resource = (await openFeatures(deps, principal)).resource(uri);
    if (!resource) throw invalidParams(`${uri.slice(0, 200)} is not a directory resource`);
    const args = { uri: resource.uri, directory: true };
    const { resources } = await callFeature(caller, resource.definition, args, context, { address: uri });
    const { items, nextCursor } = pageOf(Array.isArray(resources) ? resources : [], cursor);
    return { ...UNCACHED, resources: items, nextCursor };
  });
}

const invalidParams = (message: string): ProtocolError => new ProtocolError(ProtocolErrorCode.InvalidParams, message);

/** Parameters as the Standard Schema that the SDK requires. */
function paramsSchema<T>(read: (params: JsonObject) => T | undefined, message: string): StandardSchemaV1<unknown, T> {
  const validate = (value: unknown): { value: T } | { issues: { message: string }[] } => {
    const params = isJsonObject(value as JsonObject) ? read(value as JsonObject) : undefined;
    return params === undefined ? { issues: [{ message }] } : { value: params };
  };
  return { '~standard': { version: 1, vendor: 'toolfleet', validate } };
}

const isCursor = (cursor: unknown): cursor is string | undefined => cursor === undefined || typeof cursor === 'string';
const LIST_PARAMS = paramsSchema(
  ({ cursor }) => (isCursor(cursor) ? { cursor } : undefined),
  'cursor must be a string',
);
const ADDRESS_PARAMS = paramsSchema(
  ({ uri, cursor }) => (typeof uri === 'string' && isCursor(cursor) ? { uri, cursor } : undefined),
  'uri must be a string, and so must cursor if it is present',
);
