/** Where output goes; replaced in specs. */
export interface Terminal {
  out(text: string): void;
  error(text: string): void;
  /** Columns, when a person looks at it. */
  width: number | undefined;
  /** A person looks at standard error: progress may be drawn. */
  interactive: boolean;
  /** Colours are wanted (https://no-color.org). */
  colours: boolean;
  /** Everything on standard input. */
  readInput(): Promise<string>;
}

/** The real terminal. */
export function systemTerminal(env: Readonly<Record<string, string | undefined>> = process.env): Terminal {
  // `fleetctl tools | head` closes the pipe before everything is written: the reader has what it wants.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    process.exit(0);
  });
  return {
    out: (text) => void process.stdout.write(text),
    error: (text) => void process.stderr.write(text),
    width: process.stdout.isTTY ? process.stdout.columns : undefined,
    interactive: Boolean(process.stderr.isTTY),
    colours: Boolean(process.stdout.isTTY) && !env['NO_COLOR'],
    async readInput() {
      const chunks: Buffer[] = [];
      for await (const chunk of process.stdin) chunks.push(Buffer.from(chunk as Uint8Array));
      return Buffer.concat(chunks).toString('utf8');
    },
  };
}

const CODES = { bold: '1', dim: '2', red: '31', green: '32', yellow: '33' } as const;

/** Text in a colour, where colours are wanted. */
export function paint(terminal: Terminal, colour: keyof typeof CODES, text: string): string {
  return terminal.colours ? `\u001b[${CODES[colour]}m${text}\u001b[0m` : text;
}

/** Text from elsewhere without control characters: a tool's description must not steer a terminal. */
export function plain(text: string): string {
  return text.replaceAll(/(?![\t\n])\p{Cc}/gu, '');
}
