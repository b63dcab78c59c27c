/**
 * Runs the commands of a page of documentation as its reader would: in order, in one shell, and compares what they print with the block
 * that follows each of them. `node test/tutorials/run-page.ts <folder> <page> …` runs pages by hand in a folder with a `.toolfleet` of a
 * running fleet.
 *
 * A block that begins with `sh` is run. Further words of its first line:
 *   exits 3             the last command ends with this status instead of 0
 *   until               the block is repeated until it prints what is expected
 *   not run: <reason>   the block is shown only
 * The next block that begins with `text` or `json` is what it prints, standard error included. In a text, `…` stands for any characters of a
 * line, and for any lines where it is alone; runs of spaces count as one. In JSON, a string `"…"` stands for any value, `…` in a longer one
 * for any characters, and a member `"…"` for further members.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PATIENCE_MS } from '@toolfleet/testing';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const REPEAT_EVERY_MS = 300;

/** Pages of `docs` besides the tutorials whose blocks are run: on a call each page, and on routes each group, shows a request and its answer. */
export const PAGES_WITH_ANSWERS = [
  ...['call-lifecycle', 'arguments', 'time-and-retries', 'effects', 'cache', 'batches', 'large-results', 'selections'],
  ...['errors', 'call-fields', 'http-api', 'programs'],
];

/** A block of commands. */
export interface Step {
  /** Line of its first command, counted from 1. */
  line: number;
  commands: string;
  expected: string | undefined;
  isJson: boolean;
  exits: number;
  until: boolean;
  /** Why it is not run. */
  skipped: string | undefined;
}

/** The blocks `sh` of a page with what each prints. @throws Error for words behind `sh` that have no meaning */
export function stepsOf(text: string): Step[] {
  const steps: Step[] = [];
  for (const match of text.matchAll(/^```(sh|text|json)\b(.*)\n([^]*?)^```$/gm)) {
    const [, language, words = '', content = ''] = match;
    if (language !== 'sh') {
      const last = steps.at(-1);
      if (last && last.expected === undefined) Object.assign(last, { expected: content, isJson: language === 'json' });
      continue;
    }
    const line = text.slice(0, match.index).split('\n').length + 1;
    const known = /^\s*(until)?\s*(?:exits (\d+))?\s*(?:not run: (\S.*))?$/.exec(words);
    if (!known) throw new Error(`line ${line - 1}: unknown words "${words.trim()}"`);
    const [, until, exits, skipped] = known;
    steps.push({
      line,
      commands: content,
      expected: undefined,
      isJson: false,
      exits: Number(exits ?? 0),
      until: until !== undefined,
      skipped,
    });
  }
  return steps;
}

/** Whether a text is what a page shows, placeholders included. */
export function isAsShown(printed: string, expected: string): boolean {
  const lines = (text: string) =>
    text
      .trimEnd()
      .split('\n')
      .map((line) => line.trim().replaceAll(/\s+/g, ' '));
  const pattern = lines(expected).map((line) =>
    line === '…' ? '(?:.*\\n)*?' : `${line.split('…').map(RegExp.escape).join('.*')}\\n`,
  );
  return new RegExp(`^${pattern.join('')}$`).test(`${lines(printed).join('\n')}\n`);
}

/** Whether a JSON text is what a page shows, placeholders included. @throws SyntaxError when the page shows no JSON */
export function isAnswerAsShown(printed: string, expected: string): boolean {
  const shown: unknown = JSON.parse(expected);
  try {
    return matches(JSON.parse(printed), shown);
  } catch {
    return false;
  }
}

function matches(value: unknown, shown: unknown): boolean {
  if (shown === '…') return true;
  if (typeof shown === 'string')
    return (
      typeof value === 'string' && new RegExp(`^${shown.split('…').map(RegExp.escape).join('.*')}$`, 's').test(value)
    );
  if (typeof shown !== 'object' || shown === null || typeof value !== 'object' || value === null)
    return value === shown;
  const { '…': others, ...members } = shown as Record<string, unknown>;
  const names = Object.keys(members);
  const isWhole = others !== undefined || Object.keys(value).length === names.length;
  const has = (name: string) => matches((value as Record<string, unknown>)[name], members[name]);
  return isWhole && Array.isArray(value) === Array.isArray(shown) && names.every((name) => name in value && has(name));
}

/** A shell in which commands of pages run one after the other. */
export class Shell {
  readonly #child: ChildProcess;
  #output = '';
  #onOutput = () => {};

  /** @param folder stands for the reader's clone @param variables of the environment */
  constructor(folder: string, variables: Readonly<Record<string, string>> = {}) {
    this.#child = spawn('bash', ['--noprofile', '--norc', '-s'], {
      cwd: folder,
      detached: true,
      env: {
        PATH: `${join(ROOT, 'node_modules/.bin')}:${process.env['PATH']}`,
        HOME: folder,
        COLUMNS: '120',
        LC_ALL: 'C.UTF-8',
        // Commands load the same code again and again.
        NODE_COMPILE_CACHE: join(folder, '.toolfleet/compiled'),
        ...variables,
      },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    for (const stream of [this.#child.stdout!, this.#child.stderr!])
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.#output += text;
        this.#onOutput();
      });
    this.#child.once('exit', () => this.#onOutput());
    // npx would look the program up again for each command.
    this.#child.stdin!.write('exec 2>&1\nnpx() { "$@"; }\n');
  }

  /** Runs commands. @returns what they printed and the status of the last one @throws Error when they do not end */
  async run(commands: string): Promise<{ printed: string; status: number }> {
    const end = `end-${randomUUID()}`;
    this.#output = '';
    // Commands get no input: what they read would be the next commands.
    this.#child.stdin!.write(`{ ${commands}\n} < /dev/null\nprintf '\\n${end} %s\\n' $?\n`);
    const pattern = new RegExp(`\\n${end} (\\d+)\\n`);
    const timeout = AbortSignal.timeout(PATIENCE_MS);
    return new Promise((resolve, reject) => {
      const look = () => {
        const found = pattern.exec(this.#output);
        if (found) resolve({ printed: this.#output.slice(0, found.index), status: Number(found[1]) });
        else if (this.#child.exitCode !== null || timeout.aborted)
          reject(new Error(`the shell or the time ended after:\n${commands}\nIt printed:\n${this.#output}`));
      };
      this.#onOutput = look;
      timeout.addEventListener('abort', look);
    });
  }

  /** Ends the shell and what still runs in it. */
  stop(): void {
    if (this.#child.exitCode === null && this.#child.pid) process.kill(-this.#child.pid, 'SIGKILL');
  }
}

/**
 * Runs the commands of a page.
 * @returns number of blocks that were run
 * @throws Error at the first that prints something else, or ends with another status
 */
export async function runPage(text: string, shell: Shell): Promise<number> {
  const steps = stepsOf(text).filter(({ skipped }) => skipped === undefined);
  for (const step of steps) {
    const giveUpAt = performance.now() + PATIENCE_MS;
    for (;;) {
      const { printed, status } = await shell.run(step.commands);
      const compare = step.isJson ? isAnswerAsShown : isAsShown;
      const asShown = step.expected === undefined || compare(printed, step.expected);
      if (asShown && status === step.exits) break;
      if (!step.until || performance.now() > giveUpAt)
        throw new Error(
          `line ${step.line} ended with ${status}:\n${step.commands}\nIt printed:\n${printed}\nExpected:\n${step.expected ?? '(anything)'}`,
        );
      await new Promise((resolve) => setTimeout(resolve, REPEAT_EVERY_MS));
    }
  }
  return steps.length;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [folder, ...pages] = process.argv.slice(2);
  const shell = new Shell(folder!);
  try {
    for (const page of pages) {
      const begunAt = performance.now();
      await runPage(readFileSync(page, 'utf8'), shell);
      process.stdout.write(`${page}: ${((performance.now() - begunAt) / 1000).toFixed(1)} s\n`);
    }
  } finally {
    shell.stop();
  }
}
