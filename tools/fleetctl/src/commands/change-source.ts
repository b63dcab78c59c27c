import { createHash } from 'node:crypto';
import type { RouteAnswer, SourceStatus } from '@toolfleet/client';
import type { JsonObject } from '@toolfleet/contracts';
import { CliError } from '../cli-error.js';
import type { CommandContext, Options } from '../command.js';
import { hasSwitch } from '../command-line.js';
import { differences } from '../declared/resources.js';
import { Refused, type Gateway } from '../gateway.js';
import { readCalls } from '../read-calls.js';
import { plain } from '../terminal.js';

/** The answer to a registration; documents name their tools in `operations_registered`, servers in `registered`. */
export type Registered = Partial<
  RouteAnswer<'POST /api/v1/sources/openapi'> & RouteAnswer<'POST /api/v1/sources/mcp'>
> & { message: string };

/** Options of commands that change a source. */
export const CHANGE_OPTIONS: Options = [
  ['--dry-run', 'only show what would change'],
  ['--yes', 'also remove or rename tools, after a look at who uses them'],
];

const USED_DAYS = 30;
const MAX_SHOWN = 20;

/** The fields of a registered source, secrets as `${kept}`. */
export async function readRegistration(
  gateway: Gateway,
  { kind, id, tenant }: SourceStatus,
): Promise<{ registration: JsonObject; tools: string[] }> {
  const query = tenant === null ? { visibility: 'fleet' as const } : {};
  const sent = { path: { kind, name: id.slice(kind.length + 1) }, query };
  const { registration = {}, tools = [] } = await gateway.request('GET /api/v1/sources/{kind}/{name}', sent);
  return { registration: registration as JsonObject, tools };
}

/**
 * Shows what a registration in place of another one changes: fields, new tools, and tools that get another name or end, with their users.
 * @returns whether to go on
 * @throws CliError when tools end or get another name and `--yes` is missing
 */
export async function confirmChange(
  context: CommandContext,
  source: SourceStatus,
  next: JsonObject,
  preview: () => Promise<Registered>,
): Promise<boolean> {
  const { line, terminal } = context;
  const gateway = context.gateway();
  const { registration, tools: before } = await readRegistration(gateway, source);
  const { operations_registered, registered = operations_registered ?? [] } = await preview();
  const removed = before.filter((tool) => !registered.includes(tool));
  const added = registered.filter((tool) => !before.includes(tool));
  const renames = new Map<string, string>();
  for (const tool of removed) {
    const name = prefixOf(source, next) + tool.slice(prefixOf(source, registration).length);
    if (added.includes(name)) renames.set(tool, name);
  }
  const changes = await fieldChanges(registration, next);
  const lines = [
    ...changes,
    ...removed.map((tool) => (renames.has(tool) ? `tool ${tool} → ${renames.get(tool)}` : `tool ${tool} ends`)),
    ...added.filter((tool) => ![...renames.values()].includes(tool)).map((tool) => `tool ${tool} is new`),
  ];
  if (lines.length === 0) terminal.error(`${source.id}: no change\n`);
  else terminal.error(`${source.id} changes:\n${shown(lines)}`);
  const users = removed.length > 0 ? await usersOf(gateway, source, removed) : [];
  if (users.length > 0) terminal.error(`Used by:\n${shown(users)}`);
  if (hasSwitch(line, 'dry-run')) return false;
  if (removed.length > 0 && !hasSwitch(line, 'yes'))
    throw new CliError('Nothing was changed: tools would end or get another name. --yes makes the change');
  return true;
}

const shown = (lines: readonly string[]): string =>
  [...lines.slice(0, MAX_SHOWN), ...(lines.length > MAX_SHOWN ? [`${lines.length - MAX_SHOWN} more`] : [])]
    .map((line) => `  ${plain(line)}\n`)
    .join('');

/** Prefix of every tool of a source. */
function prefixOf({ kind, name }: SourceStatus, fields: JsonObject): string {
  if (kind === 'openapi') return String(fields['name_prefix'] ?? '');
  const prefix = String(fields['prefix'] ?? name);
  return prefix && `${prefix}_`;
}

/** Changed fields; secrets are not shown, and a document is its hash. */
async function fieldChanges(before: JsonObject, { name: _name, visibility: _visibility, ...next }: JsonObject) {
  const { hideSecrets } = await import('@toolfleet/fleet-file');
  const document = next['spec_inline'];
  const isText = typeof document === 'string' && !document.startsWith('sha256:');
  const spec_inline = isText ? `sha256:${createHash('sha256').update(document).digest('hex')}` : document;
  const { shown: hidden, secrets } = hideSecrets(spec_inline === undefined ? next : { ...next, spec_inline });
  return [...differences(before, hidden), ...(secrets.length > 0 ? [`secrets: ${secrets.length} sent anew`] : [])];
}

/** Toolsets and keys that name tools, and recent callers. Lists that the caller may not read are left out. */
async function usersOf(gateway: Gateway, { kind, name }: SourceStatus, tools: readonly string[]): Promise<string[]> {
  const readable = <T>(asked: Promise<T[]>): Promise<T[]> =>
    asked.catch((error: unknown) => {
      if (error instanceof Refused) return [];
      throw error;
    });
  const isGone = (tool: string) => tools.includes(tool);
  const toolsets = await readable(gateway.request('GET /api/v1/toolsets'));
  const specs = toolsets.map(async ({ id, tenant }) => {
    const query = tenant === null ? { visibility: 'fleet' as const } : {};
    const toolset = await gateway.request('GET /api/v1/toolsets/{name}', { path: { name: id }, query });
    return toolset.tools?.some(isGone) || tools.some((tool) => JSON.stringify(toolset.spec).includes(`"${tool}"`))
      ? [`toolset ${id}`]
      : [];
  });
  const keys = await readable(gateway.request('GET /api/v1/keys'));
  const bound = keys.flatMap(({ id, client, tools: globs, revoked_at: revoked }) => {
    const named = globs.filter((glob) => glob !== '*' && tools.some((tool) => matches(glob, tool)));
    return revoked === null && named.length > 0 ? [`key ${id} of ${client}: ${named.join(', ')}`] : [];
  });
  const from = new Date(Date.now() - USED_DAYS * 86_400_000).toISOString();
  const query = { from, source: `${kind}/${name}`, group_by: 'tool,user', limit: 1 };
  const groups = await readable(readCalls(gateway, query).then((body) => body.groups?.rows ?? []));
  const callers = groups
    .filter((row) => isGone(row.tool ?? ''))
    .map((row) => `${row.user_id}: ${row.calls} calls of ${row.tool} in ${USED_DAYS} days`);
  return [...(await readable(Promise.all(specs))).flat(), ...bound, ...callers];
}

/** Globs of keys have no special characters but `*`. */
const matches = (glob: string, tool: string): boolean => new RegExp(`^${glob.replaceAll('*', '.*')}$`).test(tool);
