import { defineTool } from '../builtin-tool.js';
import { ok } from '../outcome.js';
import { FILE_TOOL, PATH } from './file-tool.js';
import { decodeText } from './text-encoding.js';

const DEFAULT_LINES = 2_000;
/** Base64 and hex are not lines; a result on the wire may have 5 MiB. */
const MAX_BINARY = 3 * 1024 * 1024;

/** `file_read`: the text of a file, or a part of it. */
export const fileRead = defineTool<
  { path: string; encoding?: string; offset?: number; limit?: number },
  ['workspaces']
>({
  ...FILE_TOOL,
  name: 'file_read',
  description:
    'Read a file of the project workspace. Returns at most 2,000 lines; go on with offset where more is true. ' +
    'Binary files: encoding "base64".',
  inputSchema: {
    type: 'object',
    properties: {
      path: PATH,
      encoding: {
        type: 'string',
        default: 'utf-8',
        maxLength: 30,
        description: 'Text encoding (utf-8, latin1, utf-16le, shift_jis …), base64 or hex',
      },
      offset: { type: 'integer', minimum: 1, default: 1, description: 'First line, counted from 1' },
      limit: { type: 'integer', minimum: 1, maximum: 20_000, default: DEFAULT_LINES, description: 'Number of lines' },
    },
    required: ['path'],
    additionalProperties: false,
  },
  inputExamples: [{ path: 'src/main.py' }, { path: 'data/log.txt', offset: 2001 }],
  idempotent: true,
  cacheTtlSeconds: 0,
  needs: ['workspaces'],
  async handler({ path, encoding = 'utf-8', offset = 1, limit = DEFAULT_LINES }, run) {
    const bytes = await run.workspaces.of(run.context).read(path);
    const binary = encoding === 'base64' || encoding === 'hex';
    const text = decodeText(binary ? bytes.subarray(0, MAX_BINARY) : bytes, encoding);
    if (binary) {
      const more = bytes.length > MAX_BINARY;
      return ok({ path, content: text, encoding, size: bytes.length, more }, text);
    }
    const lines = text.split('\n');
    const content = lines.slice(offset - 1, offset - 1 + limit).join('\n');
    const more = offset - 1 + limit < lines.length;
    return ok({ path, content, encoding, size: bytes.length, lines: lines.length, offset, more }, content);
  },
});
