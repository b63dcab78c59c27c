import { describe, expect, it } from 'vitest';
import { VariableExpander } from '../config/expand-variables.js';
import { secretContext, SecretBox } from './secret-box.js';
import { secretOpener } from './secret-opener.js';

const KEY = 'a key of at least thirty-two characters';
const sealedFor = (source: string): string => new SecretBox(KEY).seal('Bearer abc', secretContext('mcp', source));

const opener = (secretKey: string | undefined) =>
  secretOpener({ kind: 'mcp', expander: new VariableExpander([], {}), secretKey });

describe('secretOpener', () => {
  it('opens sealed literals of the registration and leaves plain text alone', () => {
    expect(opener(KEY)(sealedFor('crm@acme'), 'crm@acme')).toBe('Bearer abc');
    expect(opener(undefined)('plain', undefined)).toBe('plain');
  });

  it.each(['crm', 'crm@globex', 'other@acme', undefined])(
    'opens nothing of another registration: %s',
    (registration) => {
      expect(() => opener(KEY)(sealedFor('crm@acme'), registration)).toThrow('cannot be opened');
    },
  );

  it('names what is missing without revealing the secret', () => {
    expect(() => opener(undefined)(sealedFor('crm'), 'crm')).toThrow('REGISTRY_SECRET_KEY is not set');
    expect(() => opener(`${KEY}!`)(sealedFor('crm'), 'crm')).toThrow('cannot be opened');
    expect(() => opener(KEY)('${NO_SUCH_VARIABLE_HERE}', 'crm')).toThrow('NO_SUCH_VARIABLE_HERE');
  });
});
