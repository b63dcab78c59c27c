import { isToolError } from '@toolfleet/contracts';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { workspacePath } from './workspace-store.js';

describe('workspacePath', () => {
  it.each([
    '../../../etc/passwd',
    '/etc/passwd',
    'src/../../x',
    '..',
    'a/..',
    'C:\\x',
    'a\\..\\b',
    '~root',
    '/',
    '//x',
    'src/..',
  ])('%s is refused', (path) => {
    expect(() => workspacePath(path)).toThrow('Path is outside project directory');
  });

  it.each(['a\0b', 'a\nb', 'x'.repeat(300), `${'d/'.repeat(40)}x`, '\ud800'])('%j is refused', (path) => {
    expect(() => workspacePath(path)).toThrow(/Path/);
  });

  it('keeps every path inside the workspace (property)', () => {
    const piece = fc.constantFrom('..', '.', '', 'a', '%2e%2e', '．．', 'b ', '...', '/', '\\');
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
        const path = pieces.join('/');
        let names: string[] = [];
        try {
          names = workspacePath(path);
        } catch (error) {
          expect(isToolError(error)).toBe(true);
        }
        expect(
          names.every(
            (name) => name !== '..' && name !== '.' && name !== '' && !name.includes('/') && !name.includes('\\'),
          ),
        ).toBe(true);
      }),
    );
  });
});
