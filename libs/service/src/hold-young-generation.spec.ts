import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';

const MODULE = new URL('./hold-young-generation.ts', import.meta.url).href;

/** Size of the young generation in a process of its own, before and after it builds a structure of many megabytes. */
function sizes(prepare: string): [before: number, after: number] {
  const program = `
    import { getHeapSpaceStatistics } from 'node:v8';
    import { holdYoungGeneration } from ${JSON.stringify(MODULE)};
    const size = () => getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space').space_size;
    ${prepare}
    const before = size();
    globalThis.kept = Array.from({ length: 400_000 }, (_, index) => ({ index, text: 'item ' + index }));
    console.log(JSON.stringify([before, size()]));`;
  const args = ['--disable-warning=ExperimentalWarning', '--input-type=module', '--eval', program];
  return JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' })) as [number, number];
}

describe('holdYoungGeneration', () => {
  it('keeps the size that V8 would multiply', () => {
    const [, grown] = sizes('');
    const [before, held] = sizes('holdYoungGeneration();');
    // The second of the two halves comes into use with the first collection.
    expect(held).toBeLessThanOrEqual(2 * before);
    expect(grown).toBeGreaterThan(2 * held);
  });
});
