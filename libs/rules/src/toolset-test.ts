import { ToolsetView, type Toolsets } from '@toolfleet/catalog';
import { isToolError } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { parseToolsetRef, type ToolsetSpec } from '@toolfleet/contracts/toolset';
import { UnknownFact } from '@toolfleet/engine-adapters';
import type { PastDefinitions } from './past-definitions.js';
import type { PastFacts, PastReading } from './past-calls.js';
import { PASSED, RuleTally, type Verdict } from './rule-tally.js';

const FACTS = ['tenant_id', 'user_id', 'tool', 'source', 'toolset', 'code', 'transport'] as const;
type Facts = PastFacts<(typeof FACTS)[number]>;

interface ToolsetTest {
  name: string;
  spec: ToolsetSpec;
  toolsets: Pick<Toolsets, 'view'>;
  definitions: PastDefinitions;
}

/**
 * Which recorded calls a toolset would not have had a tool for, under the name that their callers used. Only its selection and names
 * are tested; arguments that it sets or hides are not.
 */
export async function testToolset(test: ToolsetTest, reading: PastReading): Promise<RuleTally> {
  const tally = new RuleTally();
  const { name, spec } = test;
  const view = new ToolsetView({ name, tenant: null, version: 1, spec, approved: {}, quarantined: [] });
  for await (const facts of reading.rows(FACTS)) {
    // Of a name that no tool had, there is nothing to select.
    if (facts.source === null) tally.skip(facts);
    else tally.add(facts, await decide(test, view, facts), false);
  }
  return tally;
}

async function decide({ toolsets, definitions, name }: ToolsetTest, view: ToolsetView, facts: Facts): Promise<Verdict> {
  const found = definitions.of(facts);
  const tool = (found instanceof Promise ? await found : found) ?? goneTool(facts);
  try {
    const used = await usedName(toolsets, facts, tool);
    if (view.originalName(used) === tool.name && view.has(tool, used)) return PASSED;
    const shown = view.shownName(tool);
    const isRenamed = shown !== used && view.has(tool, shown);
    const reason = isRenamed ? `${used} is ${shown} in ${name}` : `${used} is not in ${name}`;
    return { is: 'refused', reasons: [reason] };
  } catch (error) {
    if (error instanceof UnknownFact) return { is: 'undecidable', fact: error.fact };
    throw error;
  }
}

/** The name that the caller used: its toolset's in the version of the call, else the tool's own. */
async function usedName(toolsets: ToolsetTest['toolsets'], facts: Facts, tool: RegisteredTool): Promise<string> {
  const ref = facts.toolset === null ? undefined : parseToolsetRef(facts.toolset);
  if (!ref) return tool.name;
  try {
    return (await toolsets.view(facts.tenant_id, ref)).shownName(tool);
  } catch (error) {
    if (isToolError(error) && error.code === 'NOT_FOUND') throw new UnknownFact('version of the toolset');
    throw error;
  }
}

/** A tool of which the record has name and source only. */
function goneTool({ tool, source }: Facts): RegisteredTool {
  const [kind, name] = (source ?? '').split('/', 2);
  const unknown = (): never => {
    throw new UnknownFact('definition of the tool');
  };
  const known = { name: tool, source: { kind, name } };
  for (const member of ['tags', 'category', 'annotations', 'quarantine', 'binding', 'revision'])
    Object.defineProperty(known, member, { get: unknown });
  return known as unknown as RegisteredTool;
}
