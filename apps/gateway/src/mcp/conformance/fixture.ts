import type { ServerContext } from '@modelcontextprotocol/server';
import type { JsonObject } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { ExtraResult, ExtraTool } from '../extras.js';

/** What a fixture does when it is called. */
export type FixtureCall = (
  args: JsonObject,
  context: ServerContext,
  takesTask: boolean,
) => Promise<ExtraResult> | ExtraResult;

/** Parts of a fixture's definition that differ from the plain one. */
export type FixtureMore = Partial<Pick<RegisteredTool, 'task_support' | 'input_schema' | 'output_schema'>>;

/** One fixture tool; without a schema it takes no arguments. */
export function fixture(name: string, description: string, call: FixtureCall, more: FixtureMore = {}): ExtraTool {
  return {
    definition: {
      name,
      description,
      version: '1.0.0',
      category: 'conformance',
      input_schema: { type: 'object', properties: {} },
      source: { kind: 'builtin', name: 'conformance' },
      binding: { kind: 'builtin', toolset: 'compute', handler: name },
      revision: '1',
      available: true,
      ...more,
    },
    call,
  };
}

/** A result of one text block. */
export const textResult = (text: string): ExtraResult => ({ content: [{ type: 'text', text }] });

/** An object schema with these properties, all of them strings and required. */
export const stringsSchema = (...names: string[]): JsonObject => ({
  type: 'object',
  properties: Object.fromEntries(names.map((name) => [name, { type: 'string' }])),
  required: names,
});
