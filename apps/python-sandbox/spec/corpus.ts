/** The corpus of hostile Python programs, `test/data/hostile-python.json`. */
import { readTestData } from '@toolfleet/testing';
import type { RunReply, Strictness } from '@toolfleet/wasi-python';

export interface CorpusRow {
  id: string;
  name: string;
  code: string;
  profile: 'any' | Strictness;
  expect: string[];
  must: string[];
  must_not: string[];
}

/** The row with a source that is repeated until it exceeds the limit for code. */
const REPEATED = 'hp-118';
const REPEATED_BYTES = 10 * 1024 * 1024;

export function corpus(): CorpusRow[] {
  const { snippets } = readTestData<{ snippets: CorpusRow[] }>('hostile-python.json');
  return snippets.map((row) =>
    row.id === REPEATED ? { ...row, code: row.code.repeat(Math.ceil(REPEATED_BYTES / row.code.length)) } : row,
  );
}

/** The classes of the corpus that match a reply. */
export function classifyReply(reply: RunReply): string[] {
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
