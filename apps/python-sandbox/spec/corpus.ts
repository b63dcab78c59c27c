/** The shared corpus of hostile programs beside the repository, when it is there. */
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Strictness } from '@toolfleet/contracts';
import type { RunReply } from '../src/python/result-frame.js';

export interface CorpusRow {
  id: string;
  name: string;
  code: string;
  profile: 'any' | Strictness;
  expect: string[];
  must: string[];
  must_not: string[];
}

const FILE = fileURLToPath(new URL('../../../../shared/data/hostile_python.json', import.meta.url));
/** The one row whose source is repeated to more than any code may have. */
const REPEATED = 'hp-118';
const REPEATED_BYTES = 10 * 1024 * 1024;

/** Undefined when the corpus is not there: its spec is skipped visibly. */
export function corpus(): CorpusRow[] | undefined {
  if (!existsSync(FILE)) return undefined;
  const { snippets } = JSON.parse(readFileSync(FILE, 'utf8')) as { snippets: CorpusRow[] };
  return snippets.map((row) =>
    row.id === REPEATED ? { ...row, code: row.code.repeat(Math.ceil(REPEATED_BYTES / row.code.length)) } : row,
  );
}

/** The classes of the corpus that an answer belongs to. */
export function classesOf(reply: RunReply): string[] {
  const isCut = reply.truncated.stdout || reply.truncated.stderr;
  switch (reply.status) {
    case 'ok':
      return isCut ? ['contained', 'limit'] : ['contained'];
    case 'exit':
      return ['contained', 'denied'];
    case 'error':
      return reply.error?.type === 'RecursionError' ? ['denied', 'limit'] : ['denied'];
    case 'policy':
      return ['denied'];
    case 'output_limit':
      return ['limit'];
    case 'crashed':
      return ['limit', 'contained'];
    default:
      return [reply.status];
  }
}
