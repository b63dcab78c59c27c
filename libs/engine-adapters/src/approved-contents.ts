import type { ApprovedContents } from '@toolfleet/contracts/execution';
import { appPage, pinnedPage } from '@toolfleet/contracts/app-page';
import { readFleetAddress } from '@toolfleet/contracts/resource-address';
import { skillFolder } from '@toolfleet/contracts/skill';
import { mcpMethod, type RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { Call } from '@toolfleet/engine';
import { hasRequiredRole, mayUse } from '@toolfleet/engine/access';

/** The tools of a tenant, and its prompts, skills and resources, without those in quarantine. */
export type ListDefinitions = (tenantId: string) => Promise<readonly (readonly RegisteredTool[])[]>;

/**
 * The approved content of a resource that a call reads, on any entry point: a page of an MCP App is pinned with the tools that show it, and
 * a file of a skill with the skill. mcp-executor refuses other contents.
 * @returns undefined for calls of other kinds, and for resources that are not pinned
 */
export async function approvedContents(
  { tool, arguments: args, request: { principal } }: Pick<Call, 'tool' | 'arguments' | 'request'>,
  list: ListDefinitions,
): Promise<ApprovedContents | undefined> {
  const { binding, source } = tool;
  if (binding.kind !== 'mcp' || mcpMethod(binding, args) !== 'resources/read') return undefined;
  const address = String(args['uri']);
  const read = readFleetAddress(address);
  const uri = read && read.authority === binding.authority ? read.uri : address;
  const all = (await list(principal.tenantId)).flat();
  const ofServer = all.filter((one) => one.source.kind === source.kind && one.source.name === source.name);
  const isApproved = (one: RegisteredTool): boolean =>
    !one.quarantine && mayUse(principal.tools, one) && hasRequiredRole(principal, one);
  // The resources of a server name pinned contents, whether its tools and skills are in quarantine or not.
  const pinned = (kind: 'pages' | 'skills'): string[] => {
    const named = tool.listing?.[kind];
    return Array.isArray(named) ? named.map(String) : [];
  };
  const pages = ofServer.filter(({ listing }) => appPage(listing) === uri && pinnedPage(listing) !== undefined);
  const skills = ofServer.filter(
    (one) =>
      one.binding.kind === 'mcp' &&
      one.binding.method === 'skills/get' &&
      one.binding.digest !== undefined &&
      uri.startsWith(skillFolder(one.binding.remoteName)),
  );
  const isPage = pages.length > 0 || pinned('pages').includes(uri);
  const isOfSkill = skills.length > 0 || pinned('skills').some((skill) => uri.startsWith(skillFolder(skill)));
  if (!isPage && !isOfSkill) return undefined;
  return {
    pages: isPage ? pages.filter(isApproved).map(({ listing }) => pinnedPage(listing)!) : undefined,
    skills: isOfSkill ? skills.filter(isApproved).map(({ listing }) => listing?.['skill'] ?? null) : undefined,
  };
}
