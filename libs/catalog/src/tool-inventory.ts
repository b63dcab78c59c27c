import { isToolError, isJsonObject, ToolError, type Principal } from '@toolfleet/contracts';
import type { CatalogTool, CatalogToolDetail } from '@toolfleet/contracts/resources';
import { question } from '@toolfleet/contracts/text';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { authorize } from '@toolfleet/engine';
import { formatTool, toolAnnotations, toolMetadata, toPublicTool } from './format-tool.js';
import { mayUse, toolAllowed } from '@toolfleet/engine/access';
import { hasRight } from '@toolfleet/access';
import type { DefinitionCache } from './definition-cache.js';
import { similarNames } from './similar-tools.js';
import type { ToolList } from './tool-list.js';
import { hasToolset } from './toolsets.js';

/**
 * Tools with their properties, for operators' views. Callers see tools that they may call; administrators also see dangerous and
 * quarantined tools, marked with the reason why they cannot be called. Callers with a toolset see its tools.
 */
export class ToolInventory {
  constructor(
    private readonly cache: DefinitionCache,
    private readonly visible: ToolList,
  ) {}

  /** Properties without schemas, by name. */
  async list(caller: Principal): Promise<{ tools: CatalogTool[]; stale: boolean }> {
    if (hasToolset(caller)) {
      const { tools, stale } = await this.visible.all(caller);
      return { tools: tools.map((tool) => shown(withAllTools(caller), tool)), stale };
    }
    const { tools, stale } = await this.cache.list(caller.tenantId);
    return { tools: tools.filter((tool) => isShown(caller, tool)).map((tool) => shown(caller, tool)), stale };
  }

  /** A line for each glob that matches no tool of a tenant, not even a dangerous or quarantined one. Globs of prompts, skills and resources pass. */
  async unmatched(tenantId: string, globs: readonly string[]): Promise<string[]> {
    const { tools } = await this.cache.list(tenantId);
    const names = tools.flatMap(({ name, aliases = [] }) => [name, ...aliases]);
    return globs
      .filter(
        (glob) =>
          glob !== '*' && !/^(prompt|skill|resource):/.test(glob) && !names.some((name) => toolAllowed([glob], name)),
      )
      .map((glob) => `no tool matches '${glob}'${question(similarNames(glob, names))}`);
  }

  /** One tool with its schemas. @throws ToolError TOOL_NOT_FOUND, also for hidden tools and other tenants' */
  async one(caller: Principal, name: string): Promise<CatalogToolDetail> {
    const tool = hasToolset(caller)
      ? await this.visible.one(caller, name)
      : await this.cache.get(name, caller.tenantId);
    if (!tool || !(hasToolset(caller) || isShown(caller, tool))) {
      throw new ToolError('TOOL_NOT_FOUND', { message: `Tool '${name}' not found`, details: { tool: name } });
    }
    const { parameters } = formatTool(toPublicTool(tool), 'native');
    return {
      ...shown(hasToolset(caller) ? withAllTools(caller) : caller, tool),
      parameters: isJsonObject(parameters) ? parameters : {},
      output_schema: tool.output_schema,
      annotations: toolAnnotations(tool),
    };
  }
}

/** The globs of the caller have already been applied to original names. */
const withAllTools = (caller: Principal): Principal => ({ ...caller, tools: ['*'] });

function isShown(caller: Principal, tool: RegisteredTool): boolean {
  if (hasRight(caller, 'manage_sources')) return true;
  return mayUse(caller.tools, tool) && !tool.dangerous && !tool.quarantine;
}

function shown(caller: Principal, tool: RegisteredTool): CatalogTool {
  const refusal = findRefusal(caller, tool);
  return {
    ...toolMetadata(tool),
    kind: tool.binding.kind,
    shared: tool.tenant === undefined,
    callable: refusal === undefined,
    not_callable_because: refusal && { code: refusal.code, reason: refusal.message },
  };
}

/** The error of a public call of this tool, whatever its arguments; undefined if it can be called. */
function findRefusal(caller: Principal, tool: RegisteredTool): ToolError | undefined {
  try {
    authorize(caller, 'public', tool);
    return undefined;
  } catch (error) {
    if (isToolError(error)) return error;
    throw error;
  }
}
