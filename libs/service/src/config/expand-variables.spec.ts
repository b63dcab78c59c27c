import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { holdsSecret } from '@toolfleet/telemetry';
import { describe, expect, it } from 'vitest';
import { VariableExpander } from './expand-variables.js';

describe('VariableExpander', () => {
  const expander = new VariableExpander(['NATS_PASSWORD'], {
    TOKEN: 'canary-token-1',
    lower: 'x',
    NATS_PASSWORD: 'own',
    EMPTY: '',
  });

  it.each([
    ['${TOKEN}', 'canary-token-1'],
    ['$TOKEN', 'canary-token-1'],
    ['Bearer ${TOKEN}!', 'Bearer canary-token-1!'],
    ['a$lower-b', 'ax-b'],
    ['$5 and $ and $$TOKEN', '$5 and $ and $TOKEN'],
    ['plain', 'plain'],
  ])('%s becomes %s', (value, expected) => expect(expander.expand(value)).toBe(expected));

  it('registers expanded values for redaction', () => {
    expander.expand('$TOKEN');
    expect(holdsSecret('x canary-token-1 y')).toBe(true);
  });

  it.each(['${UNSET}', '$EMPTY', '${NATS_PASSWORD}', '${NATS_PASSWORD_FILE}'])('refuses %s', (value) => {
    expect(() => expander.expand(value)).toThrow(expect.objectContaining({ code: 'AUTH_NOT_CONFIGURED' }));
  });

  it('reads a file each time and expands inside JSON values only', () => {
    const folder = mkdtempSync(join(tmpdir(), 'expand-'));
    const file = join(folder, 'key');
    const fromFile = new VariableExpander([], { KEY_FILE: file });
    writeFileSync(file, 'one-1\n');
    expect(fromFile.expandAll({ $KEY: ['$KEY', 1, null, { a: 'b ${KEY}' }] })).toEqual({
      $KEY: ['one-1', 1, null, { a: 'b one-1' }],
    });
    writeFileSync(file, 'two-2\n');
    expect(fromFile.expand('$KEY')).toBe('two-2');
    rmSync(folder, { recursive: true });
    expect(() => fromFile.expand('$KEY')).toThrow(/cannot be read/);
  });
});
