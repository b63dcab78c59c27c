import { parseArgs } from 'node:util';
import { isToolError, type ToolError } from '@toolfleet/contracts';
import { DEFAULT_MAX_SPEC_BYTES } from '@toolfleet/openapi';
import { beginInspection, inspectTool, type InspectionParts, type InspectOptions } from './inspect-document.js';
import { type CommandIo, readMaxBytes, readSpec } from './read-spec.js';
import { jsonText } from '../terminal.js';

export { runOpenapiRequest } from './request.js';

const INSPECT_USAGE = `Usage: fleetctl openapi inspect <file|url>... [--json]

Prints the tools that each document defines, warnings with JSON pointers, and what is refused.
Exit code 0 when nothing is refused, 1 otherwise, 2 for usage errors.

  --json               one line of JSON per document
  --operation <id>     only this operationId (repeatable)
  --tag <tag>          only operations with this tag (repeatable)
  --name-prefix <text> put before every tool name
  --max-bytes <n>      largest document (default OPENAPI_MAX_SPEC_SIZE, else 33554432)
`;

/** `fleetctl openapi inspect`: prints the tools of documents without registering them. @returns the exit code */
export async function runOpenapiInspect(args: readonly string[], io: CommandIo): Promise<number> {
  let parsed;
  try {
    parsed = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        json: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
        operation: { type: 'string', multiple: true },
        tag: { type: 'string', multiple: true },
        'name-prefix': { type: 'string' },
        'max-bytes': { type: 'string' },
      },
    });
  } catch (error) {
    io.stderr.write(`${(error as Error).message}\n\n${INSPECT_USAGE}`);
    return 2;
  }
  const { values, positionals } = parsed;
  if (values.help) {
    io.stdout.write(INSPECT_USAGE);
    return 0;
  }
  if (positionals.length === 0) {
    io.stderr.write(INSPECT_USAGE);
    return 2;
  }
  const maxBytes = readMaxBytes(values['max-bytes'], io);
  let ok = true;
  for (const source of positionals) {
    const options: InspectOptions = { maxBytes };
    if (/^https?:/i.test(source)) options.specUrl = source;
    if (values.operation) options.operations = values.operation;
    if (values.tag) options.tags = values.tag;
    if (values['name-prefix'] !== undefined) options.namePrefix = values['name-prefix'];
    const parts = await inspect(source, options);
    await (values.json ? writeJson(source, parts, io) : writeText(source, parts, io));
    ok &&= parts.refused.length === 0;
  }
  return ok ? 0 : 1;
}

async function inspect(source: string, options: InspectOptions): Promise<InspectionParts> {
  try {
    return beginInspection(await readSpec(source, options.maxBytes ?? DEFAULT_MAX_SPEC_BYTES), options);
  } catch (error) {
    if (!isToolError(error)) throw error;
    return {
      openapi: null,
      operations: 0,
      refused: [{ pointer: '', message: (error as ToolError).message }],
      warnings: () => [],
    };
  }
}

/** Writes one line per document in chunks, because the line of a large document can exceed the longest string. */
async function writeJson(source: string, parts: InspectionParts, io: CommandIo): Promise<void> {
  const { openapi, operations, refused } = parts;
  const head = jsonText({ source, ok: refused.length === 0, openapi, operations });
  let pending = `${head.slice(0, -1)},"tools":[`;
  let first = true;
  for (const tool of parts.conversion?.tools ?? []) {
    pending += (first ? '' : ',') + jsonText(inspectTool(tool));
    first = false;
    if (pending.length < CHUNK) continue;
    await write(io, pending);
    pending = '';
  }
  await write(io, `${pending}],"warnings":${jsonText(parts.warnings())},"refused":${jsonText(refused)}}\n`);
}

const CHUNK = 256 * 1024;

async function writeText(source: string, parts: InspectionParts, io: CommandIo): Promise<void> {
  const tools = parts.conversion?.tools ?? [];
  const refusals = parts.refused.length;
  await write(io, `${source}: OpenAPI ${parts.openapi ?? '?'}, ${tools.length} tools, ${refusals} refused\n`);
  const width = Math.min(48, Math.max(0, ...tools.map((tool) => tool.name.length)));
  for (const tool of tools) {
    inspectTool(tool); // some warnings are found only when the schemas are built
    const summary = (tool.description.split('\n')[0] ?? '').slice(0, 80);
    await write(io, `  ${tool.name.padEnd(width)}  ${tool.method.padEnd(7)} ${tool.path}  ${summary}\n`);
  }
  for (const { pointer, message } of parts.warnings()) await write(io, `  warning ${pointer || '/'}: ${message}\n`);
  for (const { pointer, message } of parts.refused) await write(io, `  refused ${pointer || '/'}: ${message}\n`);
}

/** Waits for a slow reader, so that a large document does not accumulate in memory. */
function write(io: CommandIo, text: string): Promise<void> | void {
  if (io.stdout.write(text) || !io.stdout.once) return;
  return new Promise((resolve) => io.stdout.once?.('drain', resolve));
}
