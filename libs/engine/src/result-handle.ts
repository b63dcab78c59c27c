import type { CallResult, ContentBlock, Json, JsonObject, ResultReading } from '@toolfleet/contracts';
import { toExactJson } from '@toolfleet/contracts/json-text';
import { describeShape } from '@toolfleet/bounded-schema';

/** The parts of a result, or of the body of a stored one, that callers read. */
interface HandlePayload {
  output: Json;
  text: string;
  metadata: JsonObject;
  content?: ContentBlock[];
}

/** Where a result is kept, and until when. */
export interface KeptHandle {
  /** Its call id. */
  handle: string;
  expiresAt: number;
}

/** Characters of the beginning in the summary of a result that is kept. */
const SHOWN_CHARS = 2_000;
/** URI of a kept result as an MCP resource. */
export const RESULT_URI = 'toolfleet://results/';

/** A text for a model; in front of it the note that it shows no live result. */
export function withDisclaimer({ disclaimer }: JsonObject, text: string): string {
  return typeof disclaimer === 'string' ? `${disclaimer} ${text}` : text;
}

/**
 * The document of a result, to which expressions apply and from which pages are cut: its output as JSON or text, or the text of a tool
 * without output.
 */
export function toDocument({ output, text, content }: Pick<CallResult, 'output' | 'text' | 'content'>): string {
  if (typeof output === 'string') return output;
  if (output !== null) return toExactJson(output);
  const blocks = content?.filter(({ type }) => type === 'text') ?? [];
  return blocks.length > 0 ? blocks.map((block) => String(block.text)).join('\n') : text;
}

/** The document of a result if a caller should not get it whole: it, or the text next to it, has more than `maxBytes`. */
export function oversizeDocument(result: HandlePayload, maxBytes: number): string | undefined {
  const document = toDocument(result);
  if (isLonger(document, maxBytes)) return document;
  const texts = result.content?.filter(({ type }) => type === 'text').map((block) => String(block.text)) ?? [];
  return isLonger(texts.join('\n'), maxBytes) ? document : undefined;
}

/** UTF-8 has at most three bytes a character, so short texts need no count. */
function isLonger(text: string, maxBytes: number): boolean {
  return text.length * 3 > maxBytes && Buffer.byteLength(text) > maxBytes;
}

/** For callers of the tools API: the tool that reads kept results, by its name. */
const BY_TOOL: ResultReading = { by: 'tool', tool: 'read_result' };

/**
 * The substitute for a kept result: size, shape and beginning, and how to read on. Pictures and files
 * of the result stay.
 */
export function withHandle<T extends HandlePayload>(
  tool: string,
  result: T,
  document: string,
  kept: KeptHandle,
  reading = BY_TOOL,
): T {
  const { handle } = kept;
  const expires_at = new Date(kept.expiresAt).toISOString();
  const bytes = Buffer.byteLength(document);
  const shape = typeof result.output === 'string' ? 'text' : describeShape(result.output);
  const uri = `${RESULT_URI}${handle}`;
  const summary = [
    `The result of '${tool}' has ${bytes} bytes (${document.length} characters) and is kept until ${expires_at}.`,
    `Shape: ${shape}`,
    howToRead(reading, handle),
    `It begins with: ${document.slice(0, SHOWN_CHARS)}`,
  ].join('\n');
  const text = withDisclaimer(result.metadata, summary);
  const rest = result.content?.filter(({ type }) => type !== 'text') ?? [];
  const mimeType = typeof result.output === 'string' ? 'text/plain' : 'application/json';
  const link = { type: 'resource_link', uri, name: `result of ${tool}`, mimeType, size: bytes };
  return {
    ...result,
    output: null,
    text,
    content: [{ type: 'text', text }, ...rest, link],
    metadata: { ...result.metadata, result_handle: { handle, uri, bytes, chars: document.length, expires_at, shape } },
  };
}

/** The sentence of a summary that says how its reader gets a part of the result. */
function howToRead(reading: ResultReading, handle: string): string {
  const select = '<JSONPath or JMESPath>';
  switch (reading.by) {
    case 'program': {
      const call = (argument: string) => `${reading.function}(handle=${JSON.stringify(handle)}, ${argument})`;
      const [part, page] = [call(`select=${JSON.stringify(select)}`), call(`offset=${SHOWN_CHARS}`)];
      return `Read a part of it in a program with ${part}, or a page with ${page}.`;
    }
    case 'resource': {
      const uri = `${RESULT_URI}${handle}`;
      return `Read a part of it as the MCP resource ${uri}?select=${select}, percent-encoded, or a page as ${uri}?offset=${SHOWN_CHARS}.`;
    }
    default: {
      const call = (args: JsonObject) => {
        const given = { handle, ...args };
        return reading.by === 'tool'
          ? `${reading.tool} ${JSON.stringify(given)}`
          : `call_tool ${JSON.stringify({ name: reading.tool, arguments: given })}`;
      };
      return `Read a part of it with ${call({ select })}, or a page with ${call({ offset: SHOWN_CHARS })}.`;
    }
  }
}
