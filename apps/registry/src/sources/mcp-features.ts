/** Definitions of the prompts, skills and resources of MCP servers. Like tools, they are owned, pinned, quarantined and selected by name. */
import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import type { DiscoverReply } from '@toolfleet/contracts/execution';
import { appPage, pinnedPage } from '@toolfleet/contracts/app-page';
import { RESULT_DIGEST, resultDigest, takesArguments } from '@toolfleet/contracts/pinned-result';
import { skillPath } from '@toolfleet/contracts/skill';
import type { McpBinding, ToolDefinition, ToolSource } from '@toolfleet/contracts/tool-definition';
import type { McpEntry } from '@toolfleet/fleet-file';
import { sha256Hex } from '@toolfleet/bounded-schema';
import { findSuspicions } from '../suspicion/suspicious-text.js';
import { readListing } from './mcp-listing.js';
import { withEntrySettings } from '../tool-settings.js';

/** What all definitions of a server share. */
export interface ServerDefinition extends Pick<ToolDefinition, 'version' | 'category'> {
  source: ToolSource;
  binding: Omit<McpBinding, 'remoteName' | 'method'>;
}

/** Calls per minute and tenant: clients read many resources at once, and complete while a user types. */
const READS_PER_MINUTE = 600;

/** The protocol makes both methods reads. Their results are never cached: only the server knows how long they are valid. */
const READ = {
  idempotent: true,
  retry_policy: { kind: 'custom', max_attempts: 2, base_delay_ms: 200, multiplier: 1, on: ['network_error'] },
  cache_ttl_seconds: 0,
  cost_per_use_micro_usd: 0,
  rate_limit: READS_PER_MINUTE,
  annotations: { readOnlyHint: true },
} as const satisfies Partial<ToolDefinition>;

const COMPLETION = {
  argument: {
    type: 'object',
    properties: { name: { type: 'string' }, value: { type: 'string' } },
    required: ['name', 'value'],
    description: 'Completes this argument instead',
  },
  context: { type: 'object' },
};
/** What a prompt takes; its server checks which arguments are missing. */
function promptInput({ arguments: named }: JsonObject): JsonObject {
  const listed = (Array.isArray(named) ? named : []).filter(isJsonObject);
  const properties = listed.map(({ name, description, required }): [string, JsonObject] => {
    const words = [description ?? '', required === true ? '(required)' : ''].map(String);
    return [String(name), { type: 'string', description: words.join(' ').trim() }];
  });
  const args = { type: 'object', properties: Object.fromEntries(properties), additionalProperties: { type: 'string' } };
  return { type: 'object', properties: { arguments: args, ...COMPLETION } };
}
const RESOURCE_INPUT: JsonObject = {
  type: 'object',
  properties: {
    uri: { type: 'string', minLength: 1, maxLength: 8_192 },
    directory: { type: 'boolean', description: 'Lists the children of a directory instead' },
    ...COMPLETION,
  },
  required: ['uri'],
};
/** The definition names its skill. */
const SKILL_INPUT: JsonObject = { type: 'object', properties: {} };

/**
 * The authority of a server's resources; undefined where neither names nor addresses have a prefix, and where the server has no
 * resources that callers may read.
 */
export function authorityOf(entry: McpEntry, { name }: ToolSource, found: DiscoverReply): string | undefined {
  if (entry.prefix === '' || !offersResources(entry, found)) return undefined;
  return `mcp-${sha256Hex(name).slice(0, 16)}`;
}

/** An entry with an allowlist of tools offers resources only if it sets `resources`. */
function offersResources({ resources, tools }: McpEntry, found: DiscoverReply): boolean {
  return found.resources !== undefined && (resources ?? tools === undefined);
}

/**
 * Definitions of the prompts and skills of a server, and of its resources as a whole.
 * @param names registered names, without the kind of the feature
 */
export function toFeatureDefinitions(
  entry: McpEntry,
  found: DiscoverReply,
  server: ServerDefinition,
  names: { ofServer: string; of(prompt: string): string },
): ToolDefinition[] {
  const isPinned = pinsContents(entry);
  const isWanted = (name: Json | undefined) => entry.prompts?.includes(String(name)) ?? entry.tools === undefined;
  const definitions = (found.prompts ?? [])
    .filter(({ name }) => typeof name === 'string' && name !== '' && isWanted(name))
    .map((prompt): ToolDefinition => {
      const { name, title, description } = prompt;
      return {
        ...server,
        ...READ,
        name: `prompt:${names.of(String(name))}`,
        description: String(description || title || `Prompt ${String(name)} of the MCP server ${entry.name}`),
        input_schema: promptInput(prompt),
        binding: {
          ...server.binding,
          remoteName: String(name),
          method: 'prompts/get',
          digest: isPinned ? textDigest(prompt) : undefined,
        },
        listing: readListing({ listing: isPinned ? prompt : withoutDigest(prompt, RESULT_DIGEST) }).listing,
      };
    });
  if (found.resources && offersResources(entry, found)) {
    for (const skill of found.skills?.skills ?? []) {
      const { uri, frontmatter } = skill;
      definitions.push({
        ...server,
        ...READ,
        name: `skill:${names.of(skillPath(String(uri)))}`,
        description: String((frontmatter as JsonObject)['description']),
        input_schema: SKILL_INPUT,
        binding: {
          ...server.binding,
          remoteName: String(uri),
          method: 'skills/get',
          digest: isPinned ? resultDigest(skill) : undefined,
        },
        listing: { skill },
      });
    }
    definitions.push({
      ...server,
      ...READ,
      name: `resource:${names.ofServer}`,
      description: `Resources of the MCP server ${entry.name}`,
      input_schema: RESOURCE_INPUT,
      binding: { ...server.binding, remoteName: entry.name, method: 'resources/read' },
      listing: listedResources(entry, found.resources, found),
    });
  }
  return definitions.map((definition) => withEntrySettings(definition, entry));
}

/**
 * The resources that clients list. They change all the time, so they are not pinned; those with a suspicious text are left out, unless
 * the server is trusted.
 */
function listedResources(
  entry: McpEntry,
  found: NonNullable<DiscoverReply['resources']>,
  reply: DiscoverReply,
): JsonObject {
  const accepts = (item: JsonObject) =>
    entry.trusted === true || textsIn(item).every((text) => findSuspicions(text).size === 0);
  const addresses = { resources: 'uri', resourceTemplates: 'uriTemplate' } as const;
  const lists = Object.fromEntries(
    (['resources', 'resourceTemplates'] as const).map((list) => [
      list,
      found[list]
        .filter((item) => typeof item[addresses[list]] === 'string' && accepts(item))
        .map((item) => readListing({ listing: item }).listing ?? {}),
    ]),
  );
  // Tools and skills in quarantine are on no list of a gateway; their pages and files are still pinned.
  const isPinned = pinsContents(entry);
  const pages = isPinned ? reply.tools.flatMap(({ listing }) => (pinnedPage(listing) ? appPage(listing)! : [])) : [];
  const skills = isPinned ? (reply.skills?.skills ?? []).map(({ uri }) => String(uri)) : [];
  return {
    ...lists,
    ...(found.subscribe === true && { subscribe: true }),
    ...(pages.length > 0 && { pages: [...new Set(pages)] }),
    ...(skills.length > 0 && { skills }),
  };
}

/** The digest of the text of a prompt without arguments; undefined where it could not be pinned. */
function textDigest({ _meta: meta }: JsonObject): string | undefined {
  const digest = isJsonObject(meta) ? meta[RESULT_DIGEST] : undefined;
  return typeof digest === 'string' ? digest : undefined;
}

/** A listed item of a server that may change without approval. */
export function withoutDigest(listing: JsonObject, key: string): JsonObject {
  const { _meta: meta, ...rest } = listing;
  if (!isJsonObject(meta)) return listing;
  const { [key]: _digest, ...own } = meta;
  return Object.keys(own).length > 0 ? { ...rest, _meta: own } : rest;
}

/** A note for each prompt without arguments and without a pinned text. */
export function unpinnedTexts(entry: McpEntry, { prompts = [] }: DiscoverReply): string[] {
  if (!pinsContents(entry)) return [];
  return prompts
    .filter((prompt) => !takesArguments(prompt) && textDigest(prompt) === undefined)
    .map(({ name }) => `the text of the prompt ${String(name)} is not pinned: it changes, or could not be read`);
}

/** Whether pages of MCP Apps, files of skills and texts of prompts that change await an approval, as tools do. */
export function pinsContents({ trusted, pin = 'refuse' }: McpEntry): boolean {
  return trusted !== true && pin === 'refuse';
}

function textsIn(value: Json | undefined): string[] {
  if (typeof value === 'string') return [value];
  if (Array.isArray(value)) return value.flatMap(textsIn);
  return isJsonObject(value) ? Object.values(value).flatMap(textsIn) : [];
}
