import { randomUUID } from 'node:crypto';
import { CliError, EXIT } from './cli-error.js';

/** Output and input of a command. Only plain text, line ends and our own styles reach the terminal. */
export interface Terminal {
  out(text: string): void;
  error(text: string): void;
  /** Writes the bytes of a file to standard output, unchanged. @throws CliError when that is a terminal */
  bytes(data: Uint8Array): void;
  /** Replaces the progress line on standard error; without text it is removed. */
  status(text?: string): void;
  /** Columns, when standard output is a terminal. */
  width: number | undefined;
  /** Standard error is a terminal: progress may be shown. */
  interactive: boolean;
  /** Colors are enabled (https://no-color.org). */
  colours: boolean;
  /** Reads all of standard input. */
  readInput(): Promise<string>;
}

/** The streams and properties of a terminal. */
interface TerminalStreams {
  out(data: string | Uint8Array): void;
  error(text: string): void;
  width?: number | undefined;
  interactive?: boolean;
  colours?: boolean;
  readInput(): Promise<string>;
}

/**
 * The only writer of the program. Text comes from tools, schemas, documents and servers, and any of it may contain escape
 * sequences. Everything that controls a terminal is removed here, except for the styles of `paint`.
 */
export function terminalOn(streams: TerminalStreams): Terminal {
  return {
    out: (text) => streams.out(rendered(text)),
    error: (text) => streams.error(rendered(text)),
    bytes(data) {
      if (streams.width !== undefined)
        throw new CliError('Standard output is a terminal; pipe the file or name one: --output FILE', EXIT.usage);
      streams.out(data);
    },
    status: (text) => streams.error(`\r\u001b[K${text === undefined ? '' : plain(text).replaceAll(/\s+/g, ' ')}`),
    width: streams.width,
    interactive: streams.interactive ?? false,
    colours: streams.colours ?? false,
    readInput: () => streams.readInput(),
  };
}

/** The real terminal. */
export function systemTerminal(env: Readonly<Record<string, string | undefined>> = process.env): Terminal {
  // `fleetctl tools | head` closes the pipe early; that is not an error.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    process.exit(0);
  });
  return terminalOn({
    out: (data) => void process.stdout.write(data),
    error: (text) => void process.stderr.write(text),
    ...(process.stdout.isTTY ? { width: process.stdout.columns } : {}),
    interactive: Boolean(process.stderr.isTTY),
    colours: Boolean(process.stdout.isTTY) && !env['NO_COLOR'],
    async readInput() {
      const chunks: Buffer[] = [];
      for await (const chunk of process.stdin) chunks.push(Buffer.from(chunk as Uint8Array));
      return Buffer.concat(chunks).toString('utf8');
    },
  });
}

const CODES = { bold: '1', dim: '2', red: '31', green: '32', yellow: '33' } as const;

/** Marks styles until the text is written. Random per process, so that foreign text cannot contain a mark. */
const NONCE = randomUUID();
const mark = (code: string) => `\uFDD0${NONCE}:${code}\uFDD1`;
const MARKS = new RegExp(`\uFDD0${NONCE}:(\\d+)\uFDD1`, 'g');

/** Text in a color, if colors are enabled. */
export function paint(terminal: Terminal, colour: keyof typeof CODES, text: string): string {
  return terminal.colours ? `${mark(CODES[colour])}${text}${mark('0')}` : text;
}

/**
 * Characters that control a terminal or hide text: control characters except tab and line feed (including ESC and the 8-bit
 * CSI), bidirectional controls (Unicode UAX #9), line separators, invisible operators, annotations, tags, and noncharacters.
 */
const UNSAFE =
  /(?![\t\n])\p{Cc}|\p{Bidi_Control}|[\u2028\u2029\u200B\u2060-\u2064\u206A-\u206F\uFEFF\uFFF9-\uFFFB\uFDD0-\uFDEF]|[\u{E0000}-\u{E007F}]|\p{Cs}/gu;

/** Removes characters that control a terminal. The writer does this with all text; use it where the width matters. */
export function plain(text: string): string {
  return text.replaceAll(UNSAFE, '');
}

function rendered(text: string): string {
  let safe = '';
  let end = 0;
  for (const { 0: found, 1: code, index } of text.matchAll(MARKS)) {
    safe += `${plain(text.slice(end, index))}\u001b[${code}m`;
    end = index + found.length;
  }
  return safe + plain(text.slice(end));
}

/** Equivalent JSON in which the characters that the writer would remove are escaped. */
export function jsonText(value: unknown, indent?: number): string {
  return (JSON.stringify(value, null, indent) ?? 'null').replaceAll(UNSAFE, (found) =>
    Array.from({ length: found.length }, (_, at) => `\\u${found.charCodeAt(at).toString(16).padStart(4, '0')}`).join(
      '',
    ),
  );
}

/** Width of tables without a terminal. */
const DEFAULT_WIDTH = 160;

/** An aligned table, truncated to the width of the terminal. Columns of numbers are right-aligned. */
export function table(
  head: readonly string[],
  rows: readonly (readonly (string | number | null | undefined)[])[],
  width = DEFAULT_WIDTH,
): string {
  const numeric = head.map((_, column) => rows.length > 0 && rows.every((row) => typeof row[column] === 'number'));
  const cells = rows.map((row) => head.map((_, column) => oneLine(row[column])));
  const widths = head.map((title, column) => Math.max(title.length, ...cells.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]) =>
    cut(
      row
        .map((cell, column) =>
          numeric[column] ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0),
        )
        .join('  ')
        .trimEnd(),
      width,
    );
  return `${[line(head), ...cells.map(line)].join('\n')}\n`;
}

/** Labels with their texts in two columns. @param width minimum of the first column; a longer label widens it for all rows */
export function facts(rows: readonly (readonly [label: string, text: string])[], width = 14, indent = ''): string {
  const column = Math.max(width, ...rows.map(([label]) => label.length + 1));
  return rows.map(([label, text]) => `${indent}${label.padEnd(column)}${oneLine(text)}\n`).join('');
}

function oneLine(value: string | number | null | undefined): string {
  return plain(String(value ?? '-'))
    .replaceAll(/\s+/g, ' ')
    .trim();
}

function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`;
}

/**
 * Characters without a meaning to bash, zsh and fish. `~`, `=` and `%` have one at the start of a word (home folders, zsh's
 * `=command`, jobs), and a dash would make a value an option.
 */
const PLAIN = /^[\p{L}\p{N}_@+:,./][\p{L}\p{N}_@%+:,./-]*$/u;
const LONGEST = 200;

/** True for a word that needs no quotes in any shell. */
export function isPlainWord(text: string): boolean {
  return text.length <= LONGEST && PLAIN.test(text);
}

/** A word of a command line that a person may paste into a shell, quoted if necessary. */
export function shellWord(text: string): string {
  return isPlainWord(text.replace(/^--?/, '')) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
