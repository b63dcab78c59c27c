import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { gatewayConfig } from '../gateway.config.js';
import { foreignVariables } from './foreign-variables.js';

const docs = (name: string) => readFileSync(new URL(`../../../../docs/${name}.md`, import.meta.url), 'utf8');
const named = (variables: readonly string[]) =>
  foreignVariables(new Set(gatewayConfig.ownKeys), Object.fromEntries(variables.map((name) => [name, 'true']))).map(
    (line) => line.split(' ')[0],
  );

describe('variables of Shannon', () => {
  it('are named where they have no effect: every one of the page', () => {
    const table = docs('coming-from-elsewhere')
      .split('### Not supported')[1]!
      .split('These variables have no effect')[0]!;
    const ignored = [...table.matchAll(/^\| (`[A-Z].*?) \|/gm)].flatMap(([, cell]) =>
      [...cell!.matchAll(/`([A-Z][A-Z_]+[A-Z])(?:=\w+)?`/g)].map(([, name]) => name!),
    );
    expect(ignored.length).toBeGreaterThan(6);
    expect(named(ignored).toSorted()).toEqual(ignored.toSorted());
    expect(named(['ENFORCE_RATE_REDIS_URL'])).toEqual(['ENFORCE_RATE_REDIS_URL']);
  });

  it('are not named where they are settings, of any service', () => {
    const settings = [...docs('configuration').matchAll(/^\| `([A-Z][A-Z0-9_]*)`/gm)].map(([, key]) => key!);
    expect(named([...settings, ...settings.map((key) => `${key}_FILE`)])).toEqual([]);
  });
});
