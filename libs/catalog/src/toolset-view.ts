import { isJsonObject, ToolError, type JsonObject } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type {
  ServedToolset,
  ShownArguments,
  ToolOverride,
  ToolSelection,
  ToolView,
} from '@toolfleet/contracts/toolset';
import { quarantineRefusal } from '@toolfleet/engine';
import { toolAnnotations } from './format-tool.js';
import { toolAllowed } from '@toolfleet/engine/access';

/** Tools as toolsets show them, with their originals. */
const originals = new WeakMap<RegisteredTool, RegisteredTool>();

/** The tool behind one that a toolset shows; any other tool unchanged. Metrics and spans name the original. */
export function originalOf(tool: RegisteredTool): RegisteredTool {
  return originals.get(tool) ?? tool;
}

/** The tools of a tenant as one version of a toolset shows them. Does not check the caller's rights. */
export class ToolsetView {
  readonly #originals = new Map<string, string>();
  readonly #positions: ReadonlyMap<string, number>;

  constructor(readonly served: ServedToolset) {
    const { overrides = {}, order = [] } = served.spec;
    for (const [original, { name }] of Object.entries(overrides)) if (name) this.#originals.set(name, original);
    this.#positions = new Map(order.map((name, index) => [name, index]));
  }

  get name(): string {
    return this.served.name;
  }

  get version(): number {
    return this.served.version;
  }

  /** The name of a tool in the toolset. */
  shownName({ name }: Pick<RegisteredTool, 'name'>): string {
    return this.#override(name)?.name ?? name;
  }

  /** The original name or alias that a shown name stands for. */
  originalName(shown: string): string {
    return this.#originals.get(shown) ?? shown;
  }

  /** Whether the toolset has this tool, and shows it under this name. */
  has(tool: RegisteredTool, shown: string): boolean {
    const { name } = this.#override(tool.name) ?? {};
    // A renamed tool is known by its new name only, and takes it from a tool with this original name.
    const isNamed = name === undefined ? !this.#originals.has(shown) : name === shown;
    return isNamed && this.#selects(tool);
  }

  /** Why a tool of the toolset is hidden: its definition changed since its override was written; undefined when it is not. */
  findRefusal(tool: RegisteredTool): ToolError | undefined {
    // The definition itself awaits an approval: the engine refuses the call.
    if (tool.quarantine) return undefined;
    if (!this.#override(tool.name) || this.served.approved[tool.name] === tool.revision) return undefined;
    const pending = this.served.quarantined.find(({ name }) => name === tool.name);
    const reason = `its override in toolset '${this.name}' was written for another definition`;
    return quarantineRefusal(this.shownName(tool), {
      reason: pending ? `${reason} (${pending.reason})` : reason,
      since_at: 0,
      pending_revision: pending?.pending_revision ?? tool.revision,
    });
  }

  /**
   * The tools of the toolset, in its order, as it shows them.
   * @param tools those that the caller may see, by name
   */
  list(tools: readonly RegisteredTool[]): RegisteredTool[] {
    const place = ({ name }: RegisteredTool): number => this.#positions.get(name) ?? this.#positions.size;
    return this.select(tools)
      .map((tool) => this.show(tool))
      .toSorted((a, b) => place(a) - place(b) || (a.name < b.name ? -1 : 1));
  }

  /** The tools of the toolset in their original form. */
  select(tools: readonly RegisteredTool[]): RegisteredTool[] {
    return tools.filter((tool) => this.has(tool, this.shownName(tool)) && !this.findRefusal(tool));
  }

  /** A tool as the toolset shows it. */
  show(tool: RegisteredTool): RegisteredTool {
    const override = this.#override(tool.name);
    if (!override) return tool;
    const { description = tool.description } = override;
    const shown = { ...tool, name: this.shownName(tool), description };
    originals.set(shown, tool);
    if (override.name) shown.aliases = undefined;
    const args = toShownArguments(override);
    if (!args) return shown;
    const isShown = (example: JsonObject) => !args.hidden.some((name) => Object.hasOwn(example, name));
    shown.input_schema = toShownSchema(tool.input_schema, args);
    shown.input_examples = tool.input_examples?.filter(isShown);
    return shown;
  }

  /** How a call sees a tool. */
  viewOf(tool: RegisteredTool): ToolView {
    const override = this.#override(tool.name);
    return {
      toolset: { name: this.name, version: this.version },
      shownName: this.shownName(tool),
      arguments: override && toShownArguments(override),
    };
  }

  #override(name: string): ToolOverride | undefined {
    const { overrides } = this.served.spec;
    return overrides && Object.hasOwn(overrides, name) ? overrides[name] : undefined;
  }

  #selects(tool: RegisteredTool): boolean {
    const { include, exclude, read_only: readOnly } = this.served.spec;
    if (include && !matches(include, tool)) return false;
    if (exclude && matches(exclude, tool)) return false;
    return !readOnly || toolAnnotations(tool)['readOnlyHint'] === true;
  }
}

function matches({ tools, tags, categories, sources }: ToolSelection, tool: RegisteredTool): boolean {
  if (tools && toolAllowed(tools, tool.name)) return true;
  if (tags && tool.tags?.some((tag) => tags.includes(tag))) return true;
  if (categories?.includes(tool.category)) return true;
  // Sources of a tenant are named `crm@acme`.
  return sources !== undefined && toolAllowed(sources, `${tool.source.kind}/${tool.source.name.replace(/@.*/, '')}`);
}

function toShownArguments({ preset = {}, defaults = {}, hide = [] }: ToolOverride): ShownArguments | undefined {
  const hidden = [...new Set([...Object.keys(preset), ...hide])];
  return hidden.length === 0 && Object.keys(defaults).length === 0 ? undefined : { preset, defaults, hidden };
}

/** The input schema without hidden arguments and with the defaults of the toolset, not required. */
function toShownSchema(schema: JsonObject, { hidden, defaults }: ShownArguments): JsonObject {
  const properties = isJsonObject(schema.properties) ? { ...schema.properties } : {};
  for (const name of hidden) delete properties[name];
  for (const [name, value] of Object.entries(defaults)) {
    const property = properties[name];
    if (isJsonObject(property)) properties[name] = { ...property, default: value };
  }
  const shown: JsonObject = { ...schema, properties };
  if (Array.isArray(schema.required)) {
    shown.required = schema.required.filter(
      (name) => typeof name === 'string' && !hidden.includes(name) && !Object.hasOwn(defaults, name),
    );
  }
  return shown;
}
