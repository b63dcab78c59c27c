import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { DECLARED } from '../spec/declared-categories.js';
import { BUILTINS } from './builtins/catalogue.js';
import { parseModule } from './parse.js';
import { Program } from './program.js';

it.each(['http.send({})', 'io.jwt.decode_verify("", {})', 'opa.runtime()'])(
  '%s is not a builtin of policies',
  (call) => {
    expect(() => new Program([parseModule(`package a\np := ${call}`, 'a.rego')])).toThrow('unsupported function');
  },
);

describe('docs/policy.md', () => {
  const text = readFileSync(new URL('../../../../docs/policy.md', import.meta.url), 'utf8');
  const listUnder = (heading: string) => {
    const section = text.split(`## ${heading}\n`)[1]?.split('\n## ')[0] ?? '';
    return [...section.matchAll(/`([a-z_][a-z0-9_.]*)`/g)].map((match) => match[1]!);
  };

  it('counts the categories that `npm run check:rego` tests', () => {
    expect(text).toContain(`[${DECLARED.length} categories](../libs/kits/rego/spec/declared-categories.ts)`);
  });

  it('lists the builtins there are', () => {
    // Policies have signs in place of these.
    const operators = ['equal', 'neq', 'lt', 'gt', 'lte', 'gte', 'plus', 'minus', 'mul', 'div', 'rem', 'or', 'and'];
    const names = [...BUILTINS.keys()].filter((name) => !operators.includes(name) && !name.startsWith('internal.'));
    expect(listUnder('Builtins').toSorted()).toEqual(names.toSorted());
  });
});
