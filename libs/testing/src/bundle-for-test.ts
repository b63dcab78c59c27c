import { mkdir, rm } from 'node:fs/promises';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { inlineText } from '../../../tools/inline-text.mjs';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

/** A program made for one spec. */
export interface TestProgram {
  readonly entry: string;
  remove(): Promise<void>;
}

/**
 * Makes a runnable program from a TypeScript file and our own packages' sources, so that specs can start processes without
 * a build. Other packages stay imports. The file lies under node_modules/.cache, where Node finds them.
 */
export async function bundleForTest(source: string): Promise<TestProgram> {
  const { build } = await import('esbuild');
  const folder = join(ROOT, 'node_modules', '.cache', 'toolfleet-specs');
  await mkdir(folder, { recursive: true });
  const entry = join(folder, `${randomUUID()}.mjs`);
  await build({
    entryPoints: [source],
    outfile: entry,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node24',
    keepNames: true,
    sourcemap: 'inline',
    logLevel: 'silent',
    plugins: [
      inlineText(),
      {
        name: 'own packages from source',
        setup(plugin) {
          plugin.onResolve({ filter: /^[^./]/ }, ({ path }) => {
            const own = /^@toolfleet\/([^/]+)(?:\/(.+))?$/.exec(path);
            return own
              ? { path: join(ROOT, 'libs', own[1] as string, 'src', `${own[2] ?? 'index'}.ts`) }
              : path.startsWith('node:') || !/^[a-z@]/i.test(path) || path === source
                ? undefined
                : { path, external: true };
          });
        },
      },
    ],
    tsconfigRaw: { compilerOptions: { experimentalDecorators: true, useDefineForClassFields: false } },
  });
  return { entry, remove: () => rm(entry, { force: true }) };
}
