import { createHash, randomUUID } from 'node:crypto';
import type { DestinationStream } from 'pino';

/** Value of the field `audit` of lines that belong to the audit log: replaced by their place in the chain. */
export const CHAINED = 'chained';
const PLACE = `"audit":"${CHAINED}"`;
/** What the first line of a chain has instead of the hash of an earlier one. */
const NO_HASH = '0'.repeat(64);

/**
 * Chains the audit lines of a process by hash: each carries `"audit":{"chain","seq","prev","hash"}`, where `hash` is the SHA-256
 * of the line as written with an empty hash, and `prev` that of the line before. A line that is cut, changed, moved or missing
 * breaks the chain. Each process begins a chain with a name of its own. Quotes inside JSON strings are escaped, so no text of
 * a caller can be taken for the field. Goes last, behind everything that changes lines.
 */
export function chainedLines(destination: DestinationStream): DestinationStream {
  const chain = randomUUID();
  let seq = 0;
  let prev = NO_HASH;

  const chained = (line: string): string => {
    const at = line.indexOf(PLACE);
    if (at < 0) return line;
    seq += 1;
    const field = (hash: string) => `"audit":{"chain":"${chain}","seq":${seq},"prev":"${prev}","hash":"${hash}"}`;
    const [before, after] = [line.slice(0, at), line.slice(at + PLACE.length)];
    const hash = createHash('sha256')
      .update(`${before}${field('')}${after}`)
      .digest('hex');
    const written = `${before}${field(hash)}${after}`;
    prev = hash;
    return written;
  };

  return {
    write: (text) => destination.write(text.includes(PLACE) ? text.split('\n').map(chained).join('\n') : text),
  };
}
