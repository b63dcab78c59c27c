import { accessSync, constants, mkdirSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, extname, join } from 'node:path';
import { isJsonObject, type CallBody, type Json, type JsonObject } from '@toolfleet/contracts';
import { toAttachments, toOutputFile, type ResultFile } from '@toolfleet/contracts/result-files';
import { CliError, EXIT } from './cli-error.js';
import { jsonText, paint, plain, type Terminal } from './terminal.js';

/** How to show a result. */
interface ShowOptions {
  /** Name of the tool or of the call, for files without a name. */
  stem: string;
  json: boolean;
  output?: Output | undefined;
}

/**
 * Where `--output` writes. `folder`: every file of the result under its own name; `file`: its picture or document, or without one its
 * output; `stream`: the same, to standard output.
 */
export type Output = { kind: 'folder' | 'file'; path: string } | { kind: 'stream' };

/** The option of commands that show results. */
export const OUTPUT_OPTION = [
  '-o, --output FILE|DIR/|-',
  'Write pictures and files, or else the output, to a file, all of them to a folder, or one to standard output',
] as const;

/**
 * Reads the value of `--output` and checks that it can be written, before a call is paid for. A folder is one that exists, or a path
 * that ends in `/` (created).
 * @throws CliError
 */
export function readOutput(path: string | undefined): Output | undefined {
  if (path === undefined) return undefined;
  if (path === '-') return { kind: 'stream' };
  const isFolder = path.endsWith('/') || statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
  try {
    if (isFolder) mkdirSync(path, { recursive: true });
    accessSync(isFolder ? path : dirname(path), constants.W_OK);
  } catch (error) {
    throw new CliError(`--output ${path} cannot be written: ${(error as Error).message}`, EXIT.usage);
  }
  return { kind: isFolder ? 'folder' : 'file', path };
}

/**
 * Shows a finished call: its result on standard output, so that it can be piped, everything else on standard error. Pictures and files
 * are written to `--output`, or named.
 * @returns the exit code
 */
export function showResult(terminal: Terminal, body: CallBody, options: ShowOptions): number {
  const { stem, json, output } = options;
  const attachments = toAttachments(body, stem);
  if (output?.kind === 'stream') return streamResult(terminal, body, stem, attachments);
  const written = output ? writeFiles(output, body, stem, attachments) : undefined;
  if (json) terminal.out(`${jsonText(body, 2)}\n`);
  else if (!body.success) showFailure(terminal, body);
  else if (!written?.hasOutput) showText(terminal, body);
  if (written) terminal.error(written.paths.map((path) => `Wrote ${path}\n`).join(''));
  else if (!json) nameAttachments(terminal, attachments);
  const omitted = body.metadata['content_omitted'];
  if (omitted !== undefined) terminal.error(`Pictures and files were too large and left out: ${jsonText(omitted)}\n`);
  return body.success ? EXIT.ok : EXIT.failed;
}

function showText(terminal: Terminal, body: CallBody): void {
  const { text, output, metadata, usage } = body;
  const isCut = isShortened(body);
  const isWhole = isCut && terminal.width === undefined;
  const shown = isWhole ? wholeOutput(output) : text !== '' ? text : output === null ? '' : jsonText(output, 2);
  const parts = [shown, ...readableBlocks(body)].filter((part) => part !== '');
  terminal.out(`${parts.map(plain).join('\n')}\n`);
  if (isCut && !isWhole) terminal.error('The result is cut; --json, --output FILE or a pipe has the whole\n');
  if (!terminal.interactive) return;
  const provenance = String(metadata['provenance'] ?? 'live');
  const source = provenance === 'live' ? '' : `, ${provenance}`;
  const note = `${Math.round(body.execution_time_ms)} ms, $${usage.cost_usd}${source}, ${body.call_id}`;
  terminal.error(`${paint(terminal, 'dim', note)}\n`);
}

/** Whether the text, made for models, has less than the output: an ellipsis stands for each cut. */
function isShortened({ text, output }: CallBody): boolean {
  const count = (one: string) => one.split('…').length;
  return output !== null && text !== '' && count(text) > count(wholeOutput(output));
}

const wholeOutput = (output: Json): string => (typeof output === 'string' ? output : jsonText(output));

/** Links and embedded texts outside `text`. */
function readableBlocks({ content = [] }: CallBody): string[] {
  return content.flatMap((block) => {
    if (block['type'] === 'resource_link') return [`${String(block['name'] ?? 'link')}: ${String(block['uri'])}`];
    const resource = isJsonObject(block['resource']) ? block['resource'] : undefined;
    return typeof resource?.['text'] === 'string' ? [resource['text'].trimEnd()] : [];
  });
}

/** The error with the tool's own report: the streams and the traceback of a program, or the text of the tool. */
function showFailure(terminal: Terminal, body: CallBody): void {
  const { output, metadata, error } = body;
  const reason = error ?? 'unknown error';
  const details = isJsonObject(metadata['details']) ? metadata['details'] : {};
  const program = isJsonObject(output) && typeof output['stdout'] === 'string' ? output : undefined;
  if (program) {
    terminal.out(asLines(program['stdout']));
    terminal.error(asLines(program['stderr']) + asLines(details['traceback']));
  }
  const explained = program ? undefined : readExplanation(body.text);
  const message = explained?.includes(reason) ? explained : reason;
  const suggestion = metadata['suggestion'];
  terminal.error(
    `${paint(terminal, 'red', 'failed')}: ${plain(message)}\n` +
      (typeof suggestion === 'string' ? `  ${plain(suggestion)}\n` : '') +
      `  call_id: ${body.call_id}\n`,
  );
}

function asLines(text: unknown): string {
  return typeof text === 'string' && text !== '' ? `${plain(text.trimEnd())}\n` : '';
}

/** The message in the JSON that explains a failure to models. */
function readExplanation(text: string): string | undefined {
  try {
    const { message } = JSON.parse(text) as JsonObject;
    return typeof message === 'string' ? message : undefined;
  } catch {
    return undefined;
  }
}

function nameAttachments(terminal: Terminal, files: readonly ResultFile[]): void {
  for (const { name, contentType, bytes } of files)
    terminal.error(`${name}: ${contentType}, ${bytes.length} bytes; --output FILE or DIR/ writes it\n`);
}

/** The one file of a result as bytes. A result with several is shown as text, because its call must not be lost. */
function streamResult(terminal: Terminal, body: CallBody, stem: string, attachments: readonly ResultFile[]): number {
  if (!body.success || attachments.length > 1) {
    const code = showResult(terminal, body, { stem, json: false });
    if (body.success) terminal.error('fleetctl: The result has several files; name a folder: --output DIR/\n');
    return code === EXIT.ok ? EXIT.failed : code;
  }
  terminal.bytes((attachments[0] ?? toOutputFile(body, stem)).bytes);
  return EXIT.ok;
}

interface WrittenFiles {
  paths: string[];
  /** The output is among them. */
  hasOutput: boolean;
}

function writeFiles(
  output: Exclude<Output, { kind: 'stream' }>,
  body: CallBody,
  stem: string,
  attachments: readonly ResultFile[],
): WrittenFiles {
  const { kind, path } = output;
  // Binary output is an attachment already; a failed call has no result.
  const main = toOutputFile(body, stem);
  const isNew = body.success && !attachments.some(({ bytes }) => sameBytes(bytes, main.bytes));
  const hasOutput = isNew && (kind === 'folder' ? main.bytes.length > 0 : attachments.length === 0);
  const files = hasOutput ? [main, ...attachments] : attachments;
  const paths = files.map((file, index) => {
    if (kind === 'folder') return writeNew(path, file);
    const target = files.length === 1 ? path : numbered(path, file.name, index + 1);
    writeFileSync(target, file.bytes);
    return target;
  });
  return { paths, hasOutput };
}

const sameBytes = (a: Uint8Array, b: Uint8Array): boolean => Buffer.compare(a, b) === 0;

/** `chart.png` as `chart-2.pdf`: the name that was asked for with a number, and the extension of the file. */
function numbered(path: string, name: string, number: number): string {
  return join(dirname(path), `${basename(path, extname(path))}-${number}${extname(name)}`);
}

/** Writes a file into a folder, under another name if the folder has it already. */
function writeNew(folder: string, { name, bytes }: ResultFile): string {
  for (let number = 1; ; number += 1) {
    const path = number === 1 ? join(folder, name) : numbered(join(folder, name), name, number);
    try {
      writeFileSync(path, bytes, { flag: 'wx' });
      return path;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw new CliError((error as Error).message);
    }
  }
}
