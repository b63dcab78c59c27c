import { CliError, EXIT } from '../cli-error.js';
import type { CommandIo } from '../openapi/read-spec.js';
import type { Command } from '../command.js';

/** `fleetctl openapi inspect|request`; reads its own words, since its options are those of documents. */
export const openapi: Command = {
  usage: 'openapi inspect <file|url>… | openapi request <file|url> <operation>',
  summary: 'Show the tools an OpenAPI document would give, or the request of a call',
  verbs: ['inspect', 'request'],
  run: () => Promise.reject(new CliError('usage: fleetctl openapi inspect|request … (--help)', EXIT.usage)),
};

/** Runs it with the words behind `openapi` as they were typed. Loaded only then: the converter is large. */
export async function runOpenapi(words: readonly string[], io: CommandIo): Promise<number> {
  const [verb, ...args] = words;
  const { runOpenapiInspect, runOpenapiRequest } = await import('../openapi/inspect.js');
  return verb === 'request' ? runOpenapiRequest(args, io) : runOpenapiInspect(args, io);
}
