import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { CHAINED } from './log-destinations.js';
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
