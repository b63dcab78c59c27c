import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { CHAINED, writerTo } from './log-destinations.js';
import { createLogger } from './logger.js';
import { registerSecret } from './redact.js';

function logged(write: (logger: ReturnType<typeof createLogger>) => void): Record<string, any>[] {
  let text = '';
  write(createLogger({ service: 'spec', destination: { write: (lines) => void (text += lines) } }));
  return text
    .trimEnd()
    .split('\n')
    .map((line) => ({ line, ...(JSON.parse(line) as object) }));
}

describe('audit lines', () => {
  it('carry the hash of the previous line and their own, computed after redaction', () => {
    registerSecret('a-secret-of-the-audit-spec');
    const lines = logged((logger) => {
      logger.info({ audit: CHAINED, call_id: 'c1' }, 'call finished');
      logger.info('something else');
      logger.info({ audit: CHAINED, error: 'a-secret-of-the-audit-spec' }, 'call finished');
    });
    const [first, other, second] = lines;
    expect(other).not.toHaveProperty('audit');
    expect(first!['audit']).toMatchObject({ seq: 1, prev: '0'.repeat(64) });
    expect(second!['audit']).toMatchObject({ seq: 2, chain: first!['audit'].chain, prev: first!['audit'].hash });
    for (const { line, audit } of [first!, second!]) {
      const unhashed = (line as string).replace(`"hash":"${audit.hash}"`, '"hash":""');
      expect(audit.hash).toBe(createHash('sha256').update(unhashed).digest('hex'));
      expect(line).not.toContain('a-secret-of-the-audit-spec');
    }
  });

  it('cannot be imitated by text in another field', () => {
    const [line] = logged((logger) => logger.info({ error: `","audit":"${CHAINED}"` }, `"audit":"${CHAINED}"`));
    expect(line).not.toHaveProperty('audit');
  });

  it('start a new chain in each process', () => {
    const chains = [1, 2].map(() => logged((logger) => logger.info({ audit: CHAINED }, 'x'))[0]!['audit'].chain);
    expect(new Set(chains).size).toBe(2);
  });
});

describe('a log whose reader', () => {
  /** `cat` behind a pipe that does not block, as a log has when its reader made it so. */
  function startReader() {
    const folder = mkdtempSync(join(tmpdir(), 'toolfleet-log-'));
    const file = join(folder, 'log');
    const output = openSync(file, 'w');
    const reader = spawn('cat', { stdio: ['pipe', output, 'ignore'] });
    closeSync(output);
    const { fd } = (reader.stdin as unknown as { _handle: { fd: number } })._handle;
    return { reader, file, write: writerTo(fd), remove: () => rmSync(folder, { recursive: true }) };
  }
  const bytes = Buffer.from('one line\n'.repeat(200_000));

  it('is slow gets everything', async () => {
    const { reader, file, write, remove } = startReader();
    await once(reader, 'spawn');
    write(bytes);
    reader.stdin!.end();
    await once(reader, 'exit');
    expect(readFileSync(file).equals(bytes)).toBe(true);
    remove();
  });

  it('ends does not end the service', async () => {
    const { reader, write, remove } = startReader();
    const ended = once(reader, 'exit');
    reader.kill('SIGKILL');
    for (let count = 0; count < 3; count += 1) write(bytes);
    await ended;
    remove();
  });
});
