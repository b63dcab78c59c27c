/** The kits as a stranger uses them: their examples run on what `tsc -b` wrote, and each packs with what it needs and nothing else. */
import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const FOLDER = fileURLToPath(new URL('../../libs/kits', import.meta.url));
const KITS = readdirSync(FOLDER);

describe.each(KITS)('the kit %s', (kit) => {
  const read = (file: string) => readFileSync(join(FOLDER, kit, file), 'utf8');

  it('has an example that prints what its README says', () => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(FOLDER, kit, 'example.mjs')], {
      encoding: 'utf8',
      timeout: 120_000,
    });
    expect([status, stderr]).toEqual([0, '']);
    expect(read('README.md')).toContain(
      `\`\`\`js\n${read('example.mjs')}\`\`\`\n\nIt prints:\n\n\`\`\`\n${stdout}\`\`\`\n`,
    );
  });

  it('packs its programs, types and README', () => {
    const packed = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
      cwd: join(FOLDER, kit),
      encoding: 'utf8',
    });
    const files = (JSON.parse(packed) as { files: { path: string }[] }[])[0]!.files.map(({ path }) => path);
    const { exports } = JSON.parse(read('package.json')) as {
      exports: Record<string, { types: string; default: string }>;
    };
    const entries = Object.values(exports).flatMap((entry) => [entry.types, entry.default]);
    expect(files).toEqual(
      expect.arrayContaining(['README.md', 'package.json', ...entries.map((path) => path.slice(2))]),
    );
    expect(
      files.filter(
        (path) => !/^(dist\/.*\.(js|d\.ts)|python\/(\w+\.py|tzdata-[\w.-]+\.whl)|README\.md|package\.json)$/.test(path),
      ),
    ).toEqual([]);
    expect(files.filter((path) => /\.spec\./.test(path))).toEqual([]);
  });
});
