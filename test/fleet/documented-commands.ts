import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);

/** The lines of the block of a page of docs that begins with `sh <name>`. */
export function documentedLines(name: string, page = 'operations/backup.md'): string[] {
  const text = readFileSync(`${ROOT}docs/${page}`, 'utf8');
  const block = new RegExp(`^\`\`\`sh ${name}\\n([^]*?)^\`\`\``, 'm').exec(text)?.[1];
  if (block === undefined) throw new Error(`docs/${page} has no block '${name}'`);
  return block.trimEnd().split('\n');
}

/** Runs lines of the documentation unchanged, in the environment that an operator would have set up. */
export async function runDocumented(lines: readonly string[], variables: Readonly<Record<string, string>>) {
  await run('sh', ['-eu', '-c', lines.join('\n')], {
    cwd: ROOT,
    // `node` is the one that runs the fleet.
    env: { PATH: `${dirname(process.execPath)}:${process.env['PATH']}`, HOME: process.env['HOME'], ...variables },
  });
}
