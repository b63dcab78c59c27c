import { CliError, EXIT } from '../cli-error.js';
import type { CommandIo } from '../openapi/read-spec.js';
import type { Command } from '../command.js';

/** `fleetctl openapi inspect|request`. These commands parse their own options and have their own help. */
export const openapi: Command = {
  usage: 'openapi inspect <file|url>… | openapi request <file|url> <operation>',
  verbs: ['inspect', 'request'],
  run: () => Promise.reject(new CliError('usage: fleetctl openapi inspect|request … (--help)', EXIT.usage)),
};

/** Runs the command with the words after `openapi`. Imported on demand, because the converter is large. */
export async function runOpenapi(words: readonly string[], io: CommandIo): Promise<number> {
  const [verb, ...args] = words;
  const { runOpenapiInspect, runOpenapiRequest } = await import('../openapi/inspect.js');
  return verb === 'request' ? runOpenapiRequest(args, io) : runOpenapiInspect(args, io);
}
