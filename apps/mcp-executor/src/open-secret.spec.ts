import { MCP_SECRET_CONTEXT, SecretBox } from '@toolfleet/service';
import { describe, expect, it } from 'vitest';
import { secretOpener } from './open-secret.js';

const KEY = 'a key of at least thirty-two characters';

describe('secretOpener', () => {
  it('opens sealed literals and leaves plain text alone', () => {
    const sealed = new SecretBox(KEY).seal('Bearer abc', MCP_SECRET_CONTEXT);
    expect(secretOpener(KEY)(sealed)).toBe('Bearer abc');
    expect(secretOpener(undefined)('plain')).toBe('plain');
  });

  it('says what is missing without showing anything of the secret', () => {
    const sealed = new SecretBox(KEY).seal('Bearer abc', MCP_SECRET_CONTEXT);
    expect(() => secretOpener(undefined)(sealed)).toThrow('REGISTRY_SECRET_KEY is not set');
    expect(() => secretOpener(`${KEY}!`)(sealed)).toThrow('cannot be opened');
    expect(() => secretOpener(KEY)('${NO_SUCH_VARIABLE_HERE}')).toThrow('NO_SUCH_VARIABLE_HERE');
  });
});
