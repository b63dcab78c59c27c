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
 * Bundles a TypeScript file with the sources of our own packages, so that specs can start processes without a build. Other
 * packages stay imports; the bundle is in node_modules/.cache, from where Node resolves them.
 */
export async function bundleForTest(source: string): Promise<TestProgram> {
  const { build } = await import('esbuild');
  const folder = join(ROOT, 'node_modules', '.cache', 'toolfleet-specs');
  await mkdir(folder, { recursive: true });
  const name = randomUUID();
  const { metafile } = await build({
    entryPoints: { [name]: source },
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    // Late imports load late, as in the built service: a mistake in a setting ends it before.
    splitting: true,
    chunkNames: `${name}-[hash]`,
    metafile: true,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node24',
    keepNames: true,
    sourcemap: 'inline',
    logLevel: 'silent',
    conditions: ['@toolfleet/source'], // own packages from their TypeScript, by the exports of their package.json
    plugins: [
      inlineText(),
      {
        name: 'other packages stay imports',
        setup(plugin) {
          plugin.onResolve({ filter: /^[^./]/ }, ({ path }) => {
            if (path.startsWith('@toolfleet/') || path.startsWith('node:') || path === source) return undefined;
            return /^[a-z@]/i.test(path) ? { path, external: true } : undefined;
          });
        },
      },
    ],
    tsconfigRaw: { compilerOptions: { experimentalDecorators: true, useDefineForClassFields: false } },
  });
  const files = Object.keys(metafile.outputs).map((file) => join(process.cwd(), file));
  const remove = async () => void (await Promise.all(files.map((file) => rm(file, { force: true }))));
  return { entry: join(folder, `${name}.mjs`), remove };
}
