import { randomUUID } from 'node:crypto';

/** Where output goes. Everything a command writes passes here, and nothing but text, line ends and our own styles leaves. */
export interface Terminal {
  out(text: string): void;
  error(text: string): void;
  /** Replaces the line that shows how far something is, on standard error; without text it is removed. */
  status(text?: string): void;
  /** Columns, when a person looks at it. */
  width: number | undefined;
  /** A person looks at standard error: progress may be drawn. */
  interactive: boolean;
  /** Colours are wanted (https://no-color.org). */
  colours: boolean;
  /** Everything on standard input. */
  readInput(): Promise<string>;
}

/** The streams and facts a terminal is made of. */
export interface TerminalStreams {
  out(text: string): void;
  error(text: string): void;
  width?: number;
  interactive?: boolean;
  colours?: boolean;
  readInput(): Promise<string>;
}

/**
 * The one writer of the program. Text comes from tools, schemas, documents and servers, and any of it may hold escape
 * sequences: only styles of `paint` are turned into such here, and everything else that could steer a terminal is removed.
 */
export function terminalOn(streams: TerminalStreams): Terminal {
  return {
    out: (text) => streams.out(rendered(text)),
    error: (text) => streams.error(rendered(text)),
    status: (text) => streams.error(`\r\u001b[K${text === undefined ? '' : plain(text).replaceAll(/\s+/g, ' ')}`),
    width: streams.width,
    interactive: streams.interactive ?? false,
    colours: streams.colours ?? false,
    readInput: () => streams.readInput(),
  };
}

/** The real terminal. */
export function systemTerminal(env: Readonly<Record<string, string | undefined>> = process.env): Terminal {
  // `fleetctl tools | head` closes the pipe before everything is written: the reader has what it wants.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    process.exit(0);
  });
  return terminalOn({
    out: (text) => void process.stdout.write(text),
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

/** Marks a style until the text is written. Made anew for each process, so that no text from elsewhere holds one. */
const NONCE = randomUUID();
const mark = (code: string) => `\uFDD0${NONCE}:${code}\uFDD1`;
const MARKS = new RegExp(`\uFDD0${NONCE}:(\\d+)\uFDD1`, 'g');

/** Text in a colour, where colours are wanted. */
export function paint(terminal: Terminal, colour: keyof typeof CODES, text: string): string {
  return terminal.colours ? `${mark(CODES[colour])}${text}${mark('0')}` : text;
}

/**
 * What steers a terminal or hides text: control characters but tab and line feed (ESC and the 8-bit CSI among them), controls
 * of direction (Unicode UAX #9), separators of lines, invisible operators, annotations, tags, and noncharacters.
 */
const UNSAFE =
  /(?![\t\n])\p{Cc}|\p{Bidi_Control}|[\u2028\u2029\u200B\u2060-\u2064\u206A-\u206F\uFEFF\uFFF9-\uFFFB\uFDD0-\uFDEF]|[\u{E0000}-\u{E007F}]|\p{Cs}/gu;

/** Text without what could steer a terminal. The writer does this to everything; use it where the width of a text counts. */
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

/** A value as JSON that says the same and holds nothing the writer would remove: such characters are escaped. */
export function jsonText(value: unknown, indent?: number): string {
  return (JSON.stringify(value, null, indent) ?? 'null').replaceAll(UNSAFE, (found) =>
    Array.from({ length: found.length }, (_, at) => `\\u${found.charCodeAt(at).toString(16).padStart(4, '0')}`).join(
      '',
    ),
  );
}
